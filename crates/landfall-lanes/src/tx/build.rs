//! What a caller brings: a transaction that is not built yet.

use async_trait::async_trait;
use landfall_core::attempt::Signed;
use landfall_core::ledger::RailError;
use landfall_core::{Attempt, LaneId, Nonce};

/// One transaction, to be built and signed when its turn comes.
///
/// MUST NOT send anything: what is signed is stored first. MAY be asked more than once, each time
/// with another nonce: again only if all that was signed before is proven never to land, or was
/// never stored. MUST do the same for the same idempotency key, whatever the nonce.
///
/// An `async` closure of the lane and the nonce is one:
///
/// ```
/// # use landfall_core::attempt::Signed;
/// # use landfall_core::ledger::RailError;
/// # use landfall_core::{LaneId, Nonce};
/// # fn takes(_: impl landfall_lanes::Build) {}
/// takes(|lane: LaneId, nonce: Nonce| async move {
///     let bytes = format!("{lane} creates alice with nonce {nonce}").into_bytes();
///     Ok(Signed { bytes, hash: format!("{lane}-{nonce}"), base: None, expires_height: None })
/// });
/// ```
#[async_trait]
pub trait Build: Send + Sync + 'static {
    /// Builds and signs. Nothing has left the process on return.
    async fn build(&self, lane: LaneId, nonce: Nonce) -> Result<Signed, RailError>;

    /// The same on better terms, under the attempt's own nonce, where attempts queue behind each
    /// other; none if there are none to be had.
    async fn rebuild(&self, _attempt: &Attempt) -> Result<Option<Signed>, RailError> {
        Ok(None)
    }
}

#[async_trait]
impl<F, Built> Build for F
where
    F: Fn(LaneId, Nonce) -> Built + Send + Sync + 'static,
    Built: Future<Output = Result<Signed, RailError>> + Send,
{
    async fn build(&self, lane: LaneId, nonce: Nonce) -> Result<Signed, RailError> {
        self(lane, nonce).await
    }
}
