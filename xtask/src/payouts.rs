//! The payouts of a run, and the checker of what came of them.
//!
//! Every payout of a run has an amount of its own, so that each payment on the ledger can be traced
//! back to the one payout that asked for it. The checker counts overpayment as well as loss.

use std::collections::HashMap;

/// One payout that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payout {
    pub key: String,
    pub receiver: String,
    pub amount: u128,
}

/// The `index`th payout of run `run`.
pub fn payout(run: &str, index: u64, receivers: u64) -> Payout {
    Payout {
        key: format!("{run}-{index}"),
        receiver: receiver(index % receivers.max(1)),
        amount: u128::from(index) + 1,
    }
}

/// An implicit account: 64 hexadecimal digits, valid on every NEAR network without being made.
pub fn receiver(number: u64) -> String {
    format!("{:0>64}", format!("1a4df411{number:08x}"))
}

/// What the ledger shows that differs from what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Differences {
    /// Payments beyond the one that was asked for, or that nobody asked for.
    pub duplicates: u64,
    /// Payouts without a payment.
    pub losses: u64,
}

/// Compares payments on the ledger (receiver and amount) with the payouts asked for.
pub fn compare(asked: &[Payout], paid: impl Iterator<Item = (String, u128)>) -> Differences {
    let mut open: HashMap<(String, u128), u64> = HashMap::with_capacity(asked.len());
    for payout in asked {
        *open.entry((payout.receiver.clone(), payout.amount)).or_default() += 1;
    }
    let mut duplicates = 0;
    for payment in paid {
        match open.get_mut(&payment) {
            Some(left) if *left > 0 => *left -= 1,
            _ => duplicates += 1,
        }
    }
    Differences { duplicates, losses: open.values().sum() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(asked: u64, paid: &[(u64, u128)], duplicates: u64, losses: u64) {
        let asked: Vec<Payout> = (0..asked).map(|index| payout("run", index, 2)).collect();
        let paid = paid.iter().map(|(number, amount)| (receiver(*number), *amount));
        assert_eq!(compare(&asked, paid), Differences { duplicates, losses });
    }

    #[test]
    fn each_once_is_neither_a_duplicate_nor_a_loss() {
        check(3, &[(0, 1), (1, 2), (0, 3)], 0, 0);
    }

    #[test]
    fn overpayment_and_loss_are_both_counted() {
        check(2, &[(0, 1), (0, 1)], 1, 1);
        check(1, &[(0, 1), (0, 7)], 1, 0);
        check(2, &[], 0, 2);
    }

    #[test]
    fn receivers_are_account_ids_of_64_digits() {
        assert_eq!(receiver(255).len(), 64);
        assert!(receiver(255).ends_with("1a4df411000000ff"));
    }
}
