//! A call is tried before it is signed: what gas it takes, and whether it can work at all.
//!
//! **Rule:** that it can never work, or that its signer cannot pay for it, is the word of a quorum;
//! anything less is advice.

use alloy_primitives::{Address, U256};
use landfall_core::attempt::Shortage;
use landfall_core::evm::{self, Call, Work};
use landfall_core::rail::RailError;
use landfall_rpc::unavailable;

use crate::encode::Draft;
use crate::forward::nonce_question;
use crate::market::reached;
use crate::node::{At, Tried};
use crate::rail::{EvmRail, address};

impl EvmRail {
    /// What gas the call takes; or why it can never work, by the word of a quorum.
    pub(crate) async fn gas(
        &self,
        from: Address,
        call: &Call,
        draft: &Draft,
    ) -> Result<u64, RailError> {
        let given = match &call.work {
            Work::Direct(direct) => direct.gas,
            Work::Gasless(_) => None,
        };
        if let (Some(gas), false) = (given, self.settings.preflight) {
            return Ok(gas);
        }
        let quorum = self.nodes.endpoints.quorum();
        let ask = async |endpoint| self.nodes.try_on(endpoint, from, draft, given).await;
        let said = self.nodes.ask_quorum(ask).await;
        let count =
            |wanted: fn(&Tried) -> bool| said.iter().filter(|one| wanted(&one.fact)).count();
        let fails = |tried: &Tried| matches!(tried, Tried::Fails { .. });
        if count(fails) >= quorum {
            let why = said.iter().find_map(|one| match &one.fact {
                Tried::Fails { why } => Some(why.clone()),
                _ => None,
            });
            let why = format!("would not succeed: {}", why.unwrap_or_default());
            self.is_unused(call).await?;
            return Err(RailError::Hopeless(why));
        }
        let shorts = said.iter().filter_map(|one| match &one.fact {
            Tried::Short { why } => Some(why.clone()),
            _ => None,
        });
        // Else one node could keep every lane waiting for funds that it has.
        if let Some(why) = shorts.clone().nth(quorum.saturating_sub(1)) {
            return Err(RailError::Lacking { shortage: Shortage::Native, why });
        }
        let estimates = said.iter().filter_map(|one| match one.fact {
            Tried::Works { gas } => Some(u128::from(gas)),
            _ => None,
        });
        let estimates: Vec<u128> = estimates.collect();
        match given {
            // Preflight's word is advice: what no quorum calls hopeless is tried.
            Some(gas) if !said.is_empty() => Ok(gas),
            None if estimates.len() >= quorum => {
                let estimate = reached(estimates.into_iter(), quorum);
                let margin = estimate * u128::from(self.settings.gas_margin_percent) / 100;
                let gas = (estimate + margin).min(u128::from(evm::GAS_MAX));
                Ok(u64::try_from(gas).unwrap_or(evm::GAS_MAX))
            }
            _ => Err(unavailable(format!("{} of {quorum} nodes tried it", said.len()))),
        }
    }

    /// Whether nobody has used the nonce of a user's request: else it may have been executed by
    /// somebody else, and is not failed. One node that says so is enough to doubt it.
    async fn is_unused(&self, call: &Call) -> Result<(), RailError> {
        let Work::Gasless(request) = &call.work else { return Ok(()) };
        let whom = (Address::ZERO, address(request.forwarder), U256::ZERO);
        let input = nonce_question(address(request.from));
        let ask = async |endpoint| {
            let answer = self.nodes.call_on(endpoint, whom, &input, At::Latest).await?;
            let next = answer.ok().and_then(|answer| U256::try_from_be_slice(&answer));
            next.ok_or_else(|| unavailable("the forwarder does not tell the user's nonce"))
        };
        let said = self.nodes.ask_quorum(ask).await;
        if said.iter().any(|one| one.fact > U256::from(request.nonce)) {
            return Err(RailError::Misconfigured(format!(
                "nonce {} of {} at the forwarder is used: somebody else may have executed the \
                 request; look at the forwarder's events",
                request.nonce, request.from
            )));
        }
        match said.len() >= self.nodes.endpoints.quorum() {
            true => Ok(()),
            false => Err(unavailable("no quorum tells the user's nonce at the forwarder")),
        }
    }
}
