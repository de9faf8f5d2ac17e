//! What the rail knows of the ledger for a while: a block to sign on, how long transactions live,
//! what a registration costs.
//!
//! **Rule:** all of it can be forgotten at any time and is then asked again; none of it decides a
//! fate.

use std::collections::HashSet;
use std::sync::Arc;

use landfall_core::rail::RailError;
use landfall_rpc::unavailable;
use near_primitives::hash::CryptoHash;
use parking_lot::Mutex;
use serde_json::json;

use crate::node::Nodes;
use crate::settings::NearSettings;

/// What a block takes on NEAR, in milliseconds: only to bound how long a base block is reused.
const BLOCK_MS: u64 = 600;
/// A base block is reused for at most this part of a transaction's life.
const BASE_BLOCK_LIFE_PART: u64 = 20;
/// When no new base block can be had, the old one serves this many times longer.
const BASE_BLOCK_GRACE: u64 = 4;
/// Receivers in doubt that are remembered; beyond it the memory starts anew, which costs a revert.
const DOUBTED_MAX: usize = 10_000;

/// A final block that transactions refer to.
pub struct BaseBlock {
    pub hash: CryptoHash,
    /// The hash in the ledger's spelling.
    pub text: String,
    pub height: u64,
    at_ms: u64,
}

/// What is known, and for how long.
pub struct Knowledge {
    token: String,
    base_block_ms: u64,
    bounds_ms: u64,
    base: Mutex<Option<Arc<BaseBlock>>>,
    /// Held by the one that asks for a new base block.
    renewing: tokio::sync::Mutex<()>,
    validity: Mutex<Option<u64>>,
    /// The least deposit, and when it was asked for.
    deposit: Mutex<Option<(u128, u64)>>,
    deposit_max: u128,
    /// Receivers whose registration is asked of a quorum next time.
    doubted: Mutex<HashSet<String>>,
}

impl Knowledge {
    pub fn new(settings: &NearSettings) -> Self {
        Self {
            token: settings.token.clone(),
            base_block_ms: settings.base_block_ms,
            bounds_ms: settings.bounds_ms,
            base: Mutex::new(None),
            renewing: tokio::sync::Mutex::new(()),
            validity: Mutex::new(settings.validity_blocks),
            deposit: Mutex::new(None),
            deposit_max: settings.deposit_max,
            doubted: Mutex::default(),
        }
    }

    /// How many blocks a transaction lives.
    pub async fn validity(&self, nodes: &Nodes) -> Result<u64, RailError> {
        let known = *self.validity.lock();
        if let Some(blocks) = known {
            return Ok(blocks);
        }
        let blocks = nodes.validity().await?;
        *self.validity.lock() = Some(blocks);
        Ok(blocks)
    }

    /// A final block to sign on, young enough that a transaction has nearly all of its life before
    /// it.
    pub async fn base_block(
        &self,
        nodes: &Nodes,
        validity: u64,
    ) -> Result<Arc<BaseBlock>, RailError> {
        let life_ms = validity.saturating_mul(BLOCK_MS);
        let fresh_ms = self.base_block_ms.min(life_ms / BASE_BLOCK_LIFE_PART);
        let held = |age_max_ms: u64| {
            let young =
                |base: &&Arc<BaseBlock>| nodes.clock.now_ms().abs_diff(base.at_ms) <= age_max_ms;
            self.base.lock().as_ref().filter(young).cloned()
        };
        let usable_ms = fresh_ms.saturating_mul(BASE_BLOCK_GRACE);
        if let Some(base) = held(fresh_ms) {
            return Ok(base);
        }
        // One asks; meanwhile the others make do with the old one, if there is one.
        let _renewing = match (self.renewing.try_lock(), held(usable_ms)) {
            (Ok(guard), _) => guard,
            (Err(_), Some(base)) => return Ok(base),
            (Err(_), None) => self.renewing.lock().await,
        };
        if let Some(base) = held(fresh_ms) {
            return Ok(base);
        }
        if let Err(error) = self.renew(nodes, usable_ms).await {
            tracing::debug!(%error, "no new base block");
        }
        held(usable_ms).ok_or_else(|| unavailable("no final block to sign on"))
    }

    async fn renew(&self, nodes: &Nodes, usable_ms: u64) -> Result<(), RailError> {
        let block = nodes.final_block().await?;
        let hash = block.value.parse().map_err(|_| unavailable("a malformed block hash"))?;
        let mut base = self.base.lock();
        let at_ms = nodes.clock.now_ms();
        // Nodes that lag may give an older one. But the height of the one that is held may have
        // been a mistake: when it is of no use any more, whatever is new is better.
        let replaces = |held: &Arc<BaseBlock>| {
            block.height >= held.height || at_ms.abs_diff(held.at_ms) > usable_ms
        };
        if base.as_ref().is_none_or(replaces) {
            let (height, text) = (block.height, block.value);
            *base = Some(Arc::new(BaseBlock { hash, text, height, at_ms }));
        }
        Ok(())
    }

    /// What the contract wants for a registration, in yoctoNEAR.
    pub async fn least_deposit(&self, nodes: &Nodes) -> Result<u128, RailError> {
        let now_ms = nodes.clock.now_ms();
        let known = *self.deposit.lock();
        if let Some((least, at_ms)) = known
            && now_ms.abs_diff(at_ms) < self.bounds_ms
        {
            return Ok(least);
        }
        let bounds = nodes.agreed_view(&self.token, "storage_balance_bounds", &json!({})).await?;
        let least = bounds["min"].as_str().and_then(|least| least.parse().ok());
        let least = least.ok_or_else(|| unavailable("storage_balance_bounds gave no minimum"))?;
        if least > self.deposit_max {
            return Err(RailError::Misconfigured(format!(
                "{} wants {least} yoctoNEAR for a registration, above the limit of {}: raise \
                 near.deposit_max_millinear if that is right",
                self.token, self.deposit_max
            )));
        }
        *self.deposit.lock() = Some((least, now_ms));
        Ok(least)
    }

    /// The deposit as last known, without asking.
    pub fn last_deposit(&self) -> Option<u128> {
        self.deposit.lock().map(|(least, _)| least)
    }

    pub fn forget_deposit(&self) {
        *self.deposit.lock() = None;
    }

    /// A batch was reverted because this receiver was not registered, though somebody said so.
    pub fn doubt_registration(&self, receiver: &str) {
        let mut doubted = self.doubted.lock();
        if doubted.len() >= DOUBTED_MAX {
            doubted.clear();
        }
        doubted.insert(receiver.to_owned());
    }

    pub fn doubts_registration(&self, receiver: &str) -> bool {
        self.doubted.lock().contains(receiver)
    }

    pub fn trust_registration(&self, receiver: &str) {
        self.doubted.lock().remove(receiver);
    }
}
