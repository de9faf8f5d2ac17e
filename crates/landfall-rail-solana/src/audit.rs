//! What an audit asks of the chain beyond what the lanes do.

use std::collections::BTreeSet;

use futures::stream::{self, StreamExt as _};
use landfall_core::rail::RailError;
use landfall_core::{LaneId, solana};
use landfall_rpc::{shared, unavailable};

use crate::encode;
use crate::node::{Listed, SIGNATURES_MAX};
use crate::rail::SolanaRail;
use crate::request;
use crate::spender::spent_in;

/// Transactions asked for at once.
const IN_FLIGHT: usize = 16;

impl SolanaRail {
    /// Whether signed bytes spend the withdraw's nullifier for its outputs, and nothing else.
    pub fn carries(&self, withdraw: &solana::Withdraw, bytes: &[u8]) -> bool {
        let (Ok(asked), Ok(spends)) =
            (request::thawed(withdraw), encode::spends(bytes, self.program()))
        else {
            return false;
        };
        let [spend] = &spends[..] else { return false };
        spend.nullifier == asked.nullifier && asked.pays_as(&spend.outputs)
    }

    /// Whether a quorum shows that this transaction, in a final block, paid the very same.
    pub async fn is_paid_by(
        &self,
        withdraw: &solana::Withdraw,
        signature: &str,
    ) -> Result<bool, RailError> {
        let asked = request::thawed(withdraw).map_err(RailError::Misconfigured)?;
        let ask = async |endpoint| {
            let found = self.nodes.transaction_on(endpoint, signature).await?;
            let spent = found
                .and_then(|found| spent_in(&found, signature, self.program(), &asked.nullifier));
            Ok(spent.is_some_and(|spent| asked.pays_as(&spent.outputs)))
        };
        let said = self.nodes.ask_quorum(ask).await;
        let fact = shared(&said, self.nodes.endpoints.quorum()).copied();
        fact.ok_or_else(|| unavailable(format!("no quorum tells of {signature}")))
    }

    /// Every final transaction of the lane's fee payer that withdraws from the pool, as far as
    /// nodes keep them; any of them may name one.
    pub async fn spent_on(&self, lane: &LaneId) -> Result<BTreeSet<String>, RailError> {
        let payer = self.payer(lane)?;
        let ask = async |endpoint| {
            let (mut all, mut before): (Vec<Listed>, Option<String>) = (Vec::new(), None);
            loop {
                let page = self.nodes.listed_on(endpoint, &payer, before.as_deref()).await?;
                before = page.last().map(|last| last.signature.clone());
                let is_full = page.len() == SIGNATURES_MAX;
                all.extend(page.into_iter().filter(|one| !one.failed));
                if !is_full {
                    break;
                }
            }
            let withdraws = stream::iter(all).map(async |listed| {
                let found = self.nodes.transaction_on(endpoint, &listed.signature).await;
                let bytes = found.ok().flatten().map(|found| found.bytes).unwrap_or_default();
                let spends = encode::spends(&bytes, self.program()).unwrap_or_default();
                (!spends.is_empty()).then_some(listed.signature)
            });
            let withdraws = withdraws.buffered(IN_FLIGHT).filter_map(async |one| one);
            Ok(withdraws.collect::<BTreeSet<String>>().await)
        };
        let said = self.nodes.ask_quorum(ask).await;
        match said.len() >= self.nodes.endpoints.quorum() {
            true => Ok(said.into_iter().flat_map(|one| one.fact).collect()),
            false => Err(unavailable("no quorum lists the fee payer's transactions")),
        }
    }
}
