//! What is told of a run that failed.

use landfall_core::store::Store;
use landfall_core::{Lane, Transfer};

use super::checkers::Evidence;
use super::part::Part;
use super::run::START_MS;

/// A transfer's history: its trail, the attempts that carried it, its payments.
pub async fn tell(
    transfer: &Transfer,
    evidence: &Evidence,
    parts: &[Box<dyn Part>],
    store: &dyn Store,
) -> Vec<String> {
    let seconds = |ms: u64| (ms.saturating_sub(START_MS)) as f64 / 1_000.0;
    let mut lines = vec![format!("{} is {}", transfer.key, transfer.state)];
    for entry in store.trail(transfer.id).await.unwrap_or_default() {
        let tx = entry.tx_hash.unwrap_or_default();
        let when = seconds(entry.at_ms);
        let why = entry.certificate.map(|one| one.summary).unwrap_or_default();
        lines.push(format!("{when:9.3} s  {} {tx} {why}", entry.event.name()));
    }
    for attempt in &evidence.attempts {
        if attempt.members.contains(&transfer.id) {
            lines.push(format!(
                "{:9.3} s  attempt {} nonce {} epoch {}: {:?}",
                seconds(attempt.opened_ms),
                attempt.hash,
                attempt.nonce,
                attempt.epoch,
                attempt.fate
            ));
        }
    }
    let rail = transfer.payload.rail();
    for part in parts.iter().filter(|part| part.rail() == rail) {
        lines.append(&mut part.tell(transfer, &seconds).await);
    }
    for paid in evidence.paid_for(rail, &transfer.key) {
        lines.push(format!("paid by {} in block {}", paid.hash, paid.block));
    }
    lines
}

/// What keeps a world from coming to rest.
pub fn stuck(evidence: &Evidence, lanes: &[Lane], expected: usize) -> String {
    let live = evidence.transfers.iter().filter(|transfer| !transfer.state.is_final());
    let live: Vec<String> =
        live.map(|transfer| format!("{} is {}", transfer.key, transfer.state)).collect();
    let open = evidence.attempts.iter().filter(|attempt| attempt.fate.is_none());
    let open: Vec<String> = open
        .map(|attempt| format!("{:?} {} nonce {}", attempt.purpose, attempt.hash, attempt.nonce))
        .collect();
    let lane = |lane: &Lane| {
        format!("base {:?} next {:?} {:?}", lane.base_nonce, lane.next_nonce, lane.halted)
    };
    let lanes: Vec<String> = lanes.iter().map(lane).collect();
    format!(
        "{} of {expected} acknowledged; open attempts: [{}]; lanes: [{}]; unfinished: [{}]",
        evidence.promises.acknowledged.len(),
        open.join(", "),
        lanes.join(", "),
        live.join(", "),
    )
}
