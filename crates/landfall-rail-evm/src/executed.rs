//! What became of a user's request, by the forwarder's own event, whoever submitted it.
//!
//! A forwarder takes each nonce of a user once and tells so (`ExecutedForwardRequest`). The event
//! names signer and nonce, not what was asked: a user may have signed two requests with one nonce,
//! so the transaction that the event is of is read as well.
//! **Rule:** a request is executed only if that transaction carries it. If it carries another of
//! the same user, ours can never be executed: its nonce is used. If that cannot be told, nothing
//! is.
//! Pure but for [`seek`], which asks the nodes.

use alloy_primitives::{Address, B256, Bytes, U64, U256};
use alloy_sol_types::{SolCall, SolEvent};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use landfall_core::rail::RailError;
use landfall_rpc::{AtBlock, Moment};

use crate::forward::{
    ExecutedForwardRequest, ForwardRequest, ForwardRequestData, executeBatchCall, executeCall,
};
use crate::look::Looker;
use crate::node::Nodes;

/// Blocks asked about at a time: what the strictest providers allow.
pub const RANGE_BLOCKS: u64 = 1_000;

/// A user's nonce at a forwarder, which is used once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    pub forwarder: Address,
    pub signer: Address,
    pub nonce: u64,
}

/// An event as nodes tell it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Log {
    pub address: Address,
    pub topics: Vec<B256>,
    pub data: Bytes,
    pub block_number: U64,
    pub block_hash: B256,
    pub transaction_hash: B256,
    /// Its block fell off the chain.
    #[serde(default)]
    pub removed: bool,
}

/// A nonce was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Used {
    /// Whether the call that the user asked for succeeded.
    pub success: bool,
    pub transaction: B256,
    pub block_number: u64,
    pub block_hash: B256,
}

/// What a transaction that used a nonce carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carried {
    Ours,
    /// Another request of the same user.
    Another,
    /// It went through another contract, or holds several of the user's requests.
    Unclear,
}

impl Ticket {
    pub fn of(forwarder: Address, request: &ForwardRequest) -> Option<Ticket> {
        let nonce = u64::try_from(request.nonce).ok()?;
        Some(Ticket { forwarder, signer: request.from, nonce })
    }

    /// The parameters of `eth_getLogs` for the signer's events in these blocks.
    pub fn logs(&self, (first, last): (u64, u64)) -> Value {
        json!([{
            "address": self.forwarder,
            "topics": [ExecutedForwardRequest::SIGNATURE_HASH, self.signer.into_word()],
            "fromBlock": format!("{first:#x}"),
            "toBlock": format!("{last:#x}"),
        }])
    }

    /// The event of this very nonce, if it is among them. Nodes may tell more than was asked.
    pub fn used(&self, logs: &[Log]) -> Option<Used> {
        logs.iter().filter(|log| !log.removed).find_map(|log| self.read(log))
    }

    fn read(&self, log: &Log) -> Option<Used> {
        let told = ExecutedForwardRequest::decode_raw_log(log.topics.iter().copied(), &log.data);
        let told = told.ok().filter(|_| log.address == self.forwarder)?;
        let is_it = told.signer == self.signer && told.nonce == U256::from(self.nonce);
        is_it.then_some(Used {
            success: told.success,
            transaction: log.transaction_hash,
            block_number: log.block_number.to(),
            block_hash: log.block_hash,
        })
    }

    /// Whether the transaction that used the nonce carried this request.
    pub fn carried(&self, request: &ForwardRequest, to: Option<Address>, input: &[u8]) -> Carried {
        if to != Some(self.forwarder) {
            return Carried::Unclear;
        }
        let all = match (executeCall::abi_decode(input), executeBatchCall::abi_decode(input)) {
            (Ok(one), _) => vec![one.request],
            (_, Ok(batch)) => batch.requests,
            _ => return Carried::Unclear,
        };
        let mut of_signer = all.iter().filter(|one| one.from == self.signer);
        match (of_signer.next(), of_signer.next()) {
            (Some(only), None) if asks_the_same(only, request) => Carried::Ours,
            (Some(_), None) => Carried::Another,
            _ => Carried::Unclear,
        }
    }
}

/// All that is signed but the nonce, which the forwarder has checked.
fn asks_the_same(one: &ForwardRequestData, other: &ForwardRequest) -> bool {
    (one.from, one.to, one.value) == (other.from, other.to, other.value)
        && (one.gas, one.deadline, &one.data) == (other.gas, other.deadline, &other.data)
}

/// What used the nonce since a block, in final ones, as a quorum has it; none if nothing has.
pub async fn seek(
    looker: &Looker,
    nodes: &Nodes,
    (ticket, request): (&Ticket, &ForwardRequest),
    since: u64,
) -> Result<Option<(Used, Carried)>, RailError> {
    let on = async |endpoint, last: u64| -> Result<Option<(Used, Carried)>, RailError> {
        for part in backwards(since, last) {
            let logs = nodes.logs_on(endpoint, ticket.logs(part)).await?;
            if let Some(used) = ticket.used(&logs) {
                let one = nodes.transaction_on(endpoint, used.transaction).await?;
                return Ok(Some((used, ticket.carried(request, one.to, &one.input))));
            }
        }
        Ok(None)
    };
    let ask = async |endpoint, at: Moment| {
        let height = match at {
            Moment::Final => looker.final_on(nodes, endpoint).await?,
            Moment::Height(height) => height,
        };
        Ok(AtBlock { height, value: on(endpoint, height).await? })
    };
    let Ticket { forwarder, signer, nonce } = ticket;
    let what = format!("what used nonce {nonce} of {signer} at forwarder {forwarder}");
    Ok(nodes.agreed(&what, ask).await?.value)
}

/// The blocks from the last to the first, by parts that a node answers.
pub fn backwards(first: u64, last: u64) -> impl Iterator<Item = (u64, u64)> {
    let parts = (last + 1).saturating_sub(first).div_ceil(RANGE_BLOCKS);
    (0..parts).map(move |part| {
        let end = last - part * RANGE_BLOCKS;
        (first.max((end + 1).saturating_sub(RANGE_BLOCKS)), end)
    })
}

#[cfg(test)]
mod tests {
    use alloy_sol_types::SolValue;

    use super::*;

    const FORWARDER: Address = Address::repeat_byte(0x22);
    const SIGNER: Address = Address::repeat_byte(0x44);
    const TICKET: Ticket = Ticket { forwarder: FORWARDER, signer: SIGNER, nonce: 4 };

    fn request() -> ForwardRequest {
        ForwardRequest {
            from: SIGNER,
            to: Address::repeat_byte(0x33),
            value: U256::from(1),
            gas: U256::from(100_000),
            nonce: U256::from(4),
            deadline: alloy_primitives::aliases::U48::from(9),
            data: Bytes::from_static(&[1]),
        }
    }

    fn given(request: ForwardRequest) -> ForwardRequestData {
        let ForwardRequest { from, to, value, gas, deadline, data, .. } = request;
        let signature = Bytes::from_static(&[7; 65]);
        ForwardRequestData { from, to, value, gas, deadline, data, signature }
    }

    fn log(nonce: u64, success: bool) -> Log {
        Log {
            address: FORWARDER,
            topics: vec![ExecutedForwardRequest::SIGNATURE_HASH, SIGNER.into_word()],
            data: (U256::from(nonce), success).abi_encode().into(),
            block_number: U64::from(8),
            block_hash: B256::repeat_byte(8),
            transaction_hash: B256::repeat_byte(9),
            removed: false,
        }
    }

    #[test]
    fn the_event_of_the_nonce_tells_that_it_was_used_and_how() {
        let used = |success| Used {
            success,
            transaction: B256::repeat_byte(9),
            block_number: 8,
            block_hash: B256::repeat_byte(8),
        };
        assert_eq!(TICKET.used(&[log(3, true), log(4, true)]), Some(used(true)));
        assert_eq!(TICKET.used(&[log(4, false)]), Some(used(false)));
    }

    #[test]
    fn what_is_not_that_event_tells_nothing() {
        let good = log(4, true);
        let others = [
            log(3, true),
            Log { address: Address::ZERO, ..good.clone() },
            Log { topics: vec![good.topics[0], Address::ZERO.into_word()], ..good.clone() },
            Log { topics: vec![B256::ZERO, good.topics[1]], ..good.clone() },
            Log { topics: vec![good.topics[0]], ..good.clone() },
            Log { data: Bytes::new(), ..good.clone() },
            Log { removed: true, ..good },
        ];
        for other in others {
            assert_eq!(TICKET.used(std::slice::from_ref(&other)), None, "{other:?}");
        }
        assert_eq!(TICKET.used(&[]), None);
    }

    fn carried(to: Option<Address>, input: &[u8]) -> Carried {
        TICKET.carried(&request(), to, input)
    }

    #[test]
    fn it_is_ours_whoever_submitted_it_alone_or_in_a_batch() {
        let alone = executeCall { request: given(request()) }.abi_encode();
        assert_eq!(carried(Some(FORWARDER), &alone), Carried::Ours);
        let stranger = given(ForwardRequest { from: Address::ZERO, ..request() });
        let requests = vec![stranger, given(request())];
        let batch = executeBatchCall { requests, refundReceiver: Address::ZERO }.abi_encode();
        assert_eq!(carried(Some(FORWARDER), &batch), Carried::Ours);
    }

    #[test]
    fn another_request_with_the_same_nonce_is_not_ours() {
        let others = [
            ForwardRequest { to: Address::ZERO, ..request() },
            ForwardRequest { value: U256::ZERO, ..request() },
            ForwardRequest { gas: U256::ZERO, ..request() },
            ForwardRequest { deadline: Default::default(), ..request() },
            ForwardRequest { data: Bytes::new(), ..request() },
        ];
        for other in others {
            let input = executeCall { request: given(other.clone()) }.abi_encode();
            assert_eq!(carried(Some(FORWARDER), &input), Carried::Another, "{other:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_as_one_request_of_the_user_is_unclear() {
        let input = executeCall { request: given(request()) }.abi_encode();
        assert_eq!(carried(Some(Address::ZERO), &input), Carried::Unclear, "by another contract");
        assert_eq!(carried(None, &input), Carried::Unclear);
        assert_eq!(carried(Some(FORWARDER), &input[..40]), Carried::Unclear);
        assert_eq!(carried(Some(FORWARDER), &[]), Carried::Unclear);
        let requests = vec![given(request()), given(request())];
        let twice = executeBatchCall { requests, refundReceiver: Address::ZERO }.abi_encode();
        assert_eq!(carried(Some(FORWARDER), &twice), Carried::Unclear);
    }

    #[test]
    fn blocks_are_asked_about_from_the_newest_in_parts_without_gaps() {
        let parts = |first, last| backwards(first, last).collect::<Vec<_>>();
        assert_eq!(parts(5, 5), [(5, 5)]);
        assert_eq!(parts(6, 5), []);
        assert_eq!(parts(0, 999), [(0, 999)]);
        assert_eq!(parts(10, 2_500), [(1_501, 2_500), (501, 1_500), (10, 500)]);
        assert_eq!(parts(0, 1_000), [(1, 1_000), (0, 0)]);
    }

    #[test]
    fn a_ticket_is_asked_about_by_contract_and_signer() {
        let asked = TICKET.logs((7, 16));
        assert_eq!((&asked[0]["fromBlock"], &asked[0]["toBlock"]), (&json!("0x7"), &json!("0x10")));
        assert_eq!(asked[0]["address"], json!(FORWARDER));
        assert_eq!(asked[0]["topics"][1], json!(SIGNER.into_word()));
        assert_eq!(Ticket::of(FORWARDER, &request()), Some(TICKET));
        let beyond = ForwardRequest { nonce: U256::MAX, ..request() };
        assert_eq!(Ticket::of(FORWARDER, &beyond), None);
    }
}
