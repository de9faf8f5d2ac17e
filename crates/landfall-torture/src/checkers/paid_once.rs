//! Invariant 1: a transfer's value moves at most once, and nothing is paid that nobody asked for.

use std::collections::BTreeMap;

use landfall_core::RailName;

use super::{Broken, Evidence, Payment};

const RULE: &str = "paid at most once";

pub fn check(evidence: &Evidence) -> Result<(), Broken> {
    evidence.paid.iter().try_for_each(|(rail, paid)| once(evidence, *rail, paid))?;
    if evidence.promises.store_went_back {
        // A key whose record is gone may be taken anew, with other parameters.
        return Ok(());
    }
    for (key, promise) in &evidence.promises.acknowledged {
        let (receiver, amount) = (promise.payload.receiver(), promise.payload.amount());
        for paid in evidence.paid_for(promise.payload.rail(), key) {
            if paid.receiver != receiver || paid.amount != amount {
                let what = format!(
                    "{key} asked for {amount} to {receiver}, and {} to {} was paid",
                    paid.amount, paid.receiver
                );
                return Err(Broken::new(RULE, Some(key), what));
            }
        }
    }
    Ok(())
}

fn once(evidence: &Evidence, rail: RailName, paid: &[Payment]) -> Result<(), Broken> {
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for paid in paid {
        let Some(key) = paid.key.as_deref() else {
            let what = format!("{} paid {} for no key", paid.hash, paid.receiver);
            return Err(Broken::new(RULE, None, what));
        };
        let count = times.entry(key).or_default();
        *count += 1;
        if *count > 1 {
            let all = evidence.paid_for(rail, key);
            let where_paid: Vec<_> =
                all.iter().map(|paid| format!("{} in block {}", paid.hash, paid.block)).collect();
            let what = format!("{key} was paid {} times: {}", all.len(), where_paid.join(", "));
            return Err(Broken::new(RULE, Some(key), what));
        }
    }
    Ok(())
}
