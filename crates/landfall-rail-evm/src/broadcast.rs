//! Sending an attempt's newest bytes, and what the nodes' refusals come to.
//!
//! **Invariant:** a broadcast is one POST to one node; a lost answer is "unsure", whatever the node
//! may have done. What one node refuses is given to the next: that it is refused, or that its
//! signer cannot pay, is heard from a quorum, each asked with the bytes themselves.
//! Not here: what nodes' words mean (`refusal`).

use alloy_primitives::hex;
use landfall_core::Attempt;
use landfall_core::attempt::Shortage;
use landfall_core::guard::{self, Guard};
use landfall_core::ledger::{Broadcast, Refusal};
use landfall_rpc::RpcError;
use serde_json::json;

use crate::rail::EvmRail;
use crate::refusal::{self, Meaning};

/// Characters of a refusal that are kept.
const REASON_CHARACTERS: usize = 300;

/// One node's refusal.
pub struct Refused {
    pub endpoint: usize,
    pub reason: String,
    meaning: Meaning,
}

impl Refused {
    /// Whether it says of these bytes that they can never land.
    pub fn is_certain(&self) -> bool {
        matches!(self.meaning, Meaning::Refused { .. })
    }

    fn is_like(&self, other: &Refused) -> bool {
        std::mem::discriminant(&self.meaning) == std::mem::discriminant(&other.meaning)
    }
}

impl EvmRail {
    /// Sends to one node after the other, until one takes it or a quorum refuses.
    pub(crate) async fn send(&self, attempt: &Attempt, round: u32) -> Broadcast {
        if let Err(error) = self.nodes.introduce().await {
            return unsure(error.to_string());
        }
        let newest = attempt.newest();
        let params = json!([hex::encode_prefixed(&newest.bytes)]);
        let call = ("eth_sendRawTransaction", &params);
        let (rotation, timeout) = (rotation(attempt, round), self.settings.broadcast_timeout);
        let mut refusals: Vec<Refused> = Vec::new();
        loop {
            let refusing: Vec<usize> = refusals.iter().map(|one| one.endpoint).collect();
            let sent = self.nodes.endpoints.send_once(rotation, &refusing, call, timeout).await;
            let (endpoint, error) = match sent {
                (Some(_), Ok(_)) => return self.taken(&newest.hash, refusals),
                (Some(endpoint), Err(RpcError::Answered(error))) if !error.is_technical() => {
                    (endpoint, error)
                }
                (None, _) if !refusals.is_empty() => {
                    guard::met(Guard::RefusalNotShared);
                    let (nodes, reason) = (refusals.len(), &refusals[0].reason);
                    return unsure(format!("refused by {nodes} nodes alone: {reason}"));
                }
                (_, Err(error)) => return unsure(error.to_string()),
                (None, Ok(_)) => return unsure("an answer of nobody".to_owned()),
            };
            let said = landfall_core::plain(&error.message);
            let reason = said.chars().take(REASON_CHARACTERS).collect();
            let meaning = refusal::meaning(&error.message);
            let refused = Refused { endpoint, reason, meaning };
            match meaning {
                Meaning::Known => return self.taken(&newest.hash, refusals),
                Meaning::Refused { .. } | Meaning::Short => {
                    refusals.push(refused);
                    if let Some(shared) = shared(&refusals, self.nodes.endpoints.quorum()) {
                        return shared;
                    }
                }
                Meaning::Used | Meaning::Underpriced | Meaning::Unsure => {
                    return unsure(refused.reason);
                }
            }
        }
    }

    /// A node has it. Who refuses what lands is remembered until it does.
    fn taken(&self, hash: &str, refusals: Vec<Refused>) -> Broadcast {
        if !refusals.is_empty() {
            guard::met(Guard::RefusalNotShared);
            self.looker.note_refusals(hash, refusals);
        }
        Broadcast::Sent(None)
    }
}

/// What the newest refusal comes to, if a quorum says the like. What fewer refuse is no refusal,
/// and the same bytes go to another.
fn shared(refusals: &[Refused], quorum: usize) -> Option<Broadcast> {
    let newest = refusals.last()?;
    if refusals.iter().filter(|one| one.is_like(newest)).count() < quorum {
        return None;
    }
    let reason = newest.reason.clone();
    Some(match newest.meaning {
        Meaning::Refused { relays_fault } => Broadcast::Refused(Refusal { reason, relays_fault }),
        _ => Broadcast::Unsure { cause: reason, shortage: Some(Shortage::Native) },
    })
}

/// Which endpoint is asked first: a lane's attempts leave through one, in order; rounds go round
/// them.
fn rotation(attempt: &Attempt, round: u32) -> u64 {
    let begin: u64 = attempt.lane.as_str().bytes().map(u64::from).sum();
    begin.wrapping_add(u64::from(round))
}

fn unsure(cause: String) -> Broadcast {
    Broadcast::Unsure { cause, shortage: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: Meaning = Meaning::Refused { relays_fault: true };

    /// What nodes that refuse one after the other come to, with a quorum of two.
    fn told(refusing: &[Meaning]) -> Option<Broadcast> {
        let refused = |(endpoint, meaning): (usize, &Meaning)| Refused {
            endpoint,
            reason: format!("no {endpoint}"),
            meaning: *meaning,
        };
        let refusals: Vec<Refused> = refusing.iter().enumerate().map(refused).collect();
        shared(&refusals, 2)
    }

    #[test]
    fn fewer_than_a_quorum_refuse_nothing_and_make_no_signer_poor() {
        assert_eq!(told(&[]), None);
        assert_eq!(told(&[NEVER]), None);
        assert_eq!(told(&[Meaning::Short]), None);
        assert_eq!(told(&[NEVER, Meaning::Short]), None, "they say different things");
    }

    #[test]
    fn a_quorum_that_says_the_like_is_believed() {
        let reason = "no 1".to_owned();
        let refused = Refusal { reason: reason.clone(), relays_fault: true };
        assert_eq!(told(&[NEVER, NEVER]), Some(Broadcast::Refused(refused)));
        let short = Broadcast::Unsure { cause: reason, shortage: Some(Shortage::Native) };
        assert_eq!(told(&[Meaning::Short, Meaning::Short]), Some(short));
    }
}
