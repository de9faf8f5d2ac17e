//! What nodes say of one attempt, and what it comes to.
//!
//! A transaction is dead when a final block is higher than the last at which its blockhash was
//! good, and nobody who would know has seen it. So a node is asked in this order, each answer after
//! the one before: its final height, its final slot, the status with history searched, its oldest
//! block, and the shard of nullifiers at `finalized`.
//!
//! **Rule:** a null counts only of a node that is as far as it said before (a node behind a
//! balancer may be another one each time), that keeps the history of all blocks in which the
//! transaction could be, and that does not show the nullifier spent.
//! **Rule:** a quorum decides, and a single sighting vetoes a death.
//! **Rule:** `lastValidBlockHeight` may be passed by one: the block after it may still hold the
//! transaction. At a final height past it that block is final, and looked into.
//! Not here: asking, and looking into the block that a sighting names.

use serde_json::{Value, json};

use crate::answer::{Status, Surety};

/// What is known of an attempt since it was signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    /// The last height at which its blockhash is good, as a quorum had it.
    pub last_valid_height: u64,
    /// A slot before which it cannot have landed: that of the block that it was signed on.
    pub base_slot: u64,
}

/// What one node says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Testimony {
    pub node: String,
    pub final_height: u64,
    /// Read after the height.
    pub final_slot: u64,
    /// That of the status.
    pub status_slot: u64,
    pub status: Option<Status>,
    /// The first slot whose transactions it keeps.
    pub first_slot: u64,
    /// That of the shard, and whether the nullifier is in it; none where no shard could be read.
    pub spent: Option<(u64, bool)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Final, in the block of this slot; the error is null if it has paid.
    Landed { slot: u64, error: Value },
    /// Proven never to land, and its nullifier unspent. The evidence is for its certificate.
    Sunk { evidence: Value },
    /// It can never land any more, and its nullifier is spent: who spent it decides.
    Spent { evidence: Value },
    /// It may still land. The slots are those in which nodes say they have seen it.
    Adrift { why: String, sightings: Vec<u64> },
}

/// How a node's testimony bears on the death of the attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bearing {
    /// Dead, and the nullifier unspent or spent.
    Dead { spent: bool },
    /// Why it says nothing.
    Mute(&'static str),
}

fn bearing(signed: &Signed, said: &Testimony) -> Bearing {
    if said.status.is_some() {
        return Bearing::Mute("has seen it");
    }
    if said.final_height <= signed.last_valid_height {
        return Bearing::Mute("has no final block past its expiry");
    }
    if said.status_slot < said.final_slot {
        return Bearing::Mute("looked behind its own final block");
    }
    if said.first_slot > signed.base_slot {
        return Bearing::Mute("does not keep that history");
    }
    match said.spent {
        Some((slot, spent)) if slot >= said.final_slot => Bearing::Dead { spent },
        Some(_) => Bearing::Mute("read the nullifiers behind its own final block"),
        None => Bearing::Mute("shows no nullifiers"),
    }
}

/// What the nodes' words come to. Whoever did not answer is not among them.
pub fn judge(signed: &Signed, said: &[Testimony], quorum: usize) -> Verdict {
    if let Some(landed) = landed(said, quorum) {
        return landed;
    }
    let seen = said.iter().filter_map(|one| one.status.as_ref());
    let sightings: Vec<u64> = seen.map(|status| status.slot).collect();
    if !sightings.is_empty() {
        return Verdict::Adrift { why: "seen, not final by a quorum".to_owned(), sightings };
    }
    let bearings: Vec<Bearing> = said.iter().map(|one| bearing(signed, one)).collect();
    let count =
        |spent| bearings.iter().filter(|bearing| **bearing == Bearing::Dead { spent }).count();
    let evidence = || evidence(signed, said, &bearings);
    match (count(false), count(true)) {
        (unspent, _) if unspent >= quorum => Verdict::Sunk { evidence: evidence() },
        (_, spent) if spent >= quorum => Verdict::Spent { evidence: evidence() },
        (unspent, spent) => {
            let why = said.iter().zip(&bearings).filter_map(|(one, bearing)| match bearing {
                Bearing::Mute(why) => Some(format!("{} {why}", one.node)),
                Bearing::Dead { .. } => None,
            });
            let why: Vec<String> = why.collect();
            let dead = unspent + spent;
            let why = format!("{dead} of {quorum} say that it is dead; {}", why.join("; "));
            Verdict::Adrift { why, sightings }
        }
    }
}

/// What a quorum says of the same final block.
fn landed(said: &[Testimony], quorum: usize) -> Option<Verdict> {
    let finals: Vec<&Status> = said
        .iter()
        .filter_map(|one| one.status.as_ref())
        .filter(|status| status.surety == Surety::Finalized)
        .collect();
    let same = |one: &Status| {
        let alike = |other: &&&Status| (other.slot, &other.error) == (one.slot, &one.error);
        finals.iter().filter(alike).count()
    };
    let agreed = finals.iter().find(|one| same(one) >= quorum)?;
    Some(Verdict::Landed { slot: agreed.slot, error: agreed.error.clone() })
}

fn evidence(signed: &Signed, said: &[Testimony], bearings: &[Bearing]) -> Value {
    let witnesses = said.iter().zip(bearings).filter_map(|(one, bearing)| match bearing {
        Bearing::Mute(_) => None,
        Bearing::Dead { spent } => Some(json!({
            "node": one.node,
            "final_height": one.final_height,
            "final_slot": one.final_slot,
            "status_slot": one.status_slot,
            "first_slot": one.first_slot,
            "nullifier_spent": spent,
        })),
    });
    json!({
        "last_valid_height": signed.last_valid_height,
        "base_slot": signed.base_slot,
        "witnesses": witnesses.collect::<Vec<Value>>(),
    })
}

#[cfg(test)]
mod tests;
