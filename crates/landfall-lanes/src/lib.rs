//! The attempt protocol, written once, for every ledger.
//!
//! A [`Fleet`] holds the lanes of this process, on whatever ledgers: each by a lease with an epoch,
//! each driven by a task of its own. A lane takes a batch, signs it, stores it as an attempt
//! **before** the first byte leaves, broadcasts it, and looks until its fate is final. Recovery is
//! nothing else: on start and on takeover every open attempt of the lane is resolved the same way.
//!
//! **Invariant:** new bytes for a transfer are signed only after every earlier attempt that
//! carries it is decided. **Invariant:** a nonce is never given back.
//!
//! [`TxManager`] is the same for those who build transactions of their own: [`guide`] tells how.
//! Not here: which transfers to pay, what a fate means for them (`landfall-engine`), any ledger.

pub mod clock;
mod driver;
mod fence;
mod fleet;
pub mod gate;
pub mod guide;
mod handle;
mod held;
mod high_water;
mod keyless;
mod lease;
mod mark_file;
mod owner;
mod patience;
mod reconcile;
mod record;
mod resolve;
mod settings;
mod silence;
mod supervise;
mod tx;
mod vary;
pub mod watched;
mod watchman;

pub use clock::{SystemClock, TimerClock};
pub use fence::{FenceSigner, Fencing, Known, Unfenced, fences};
pub use fleet::{Fleet, FleetParts, LedgerLanes, LedgerParts};
pub use handle::LaneView;
pub use high_water::{HighWater, MarkLog};
pub use owner::{Batch, Demand, Owner};
pub use settings::LaneSettings;
pub use supervise::supervise;
pub use tx::{
    Build, Executed, KEY_MAX_BYTES, LaneNumbers, NotExecuted, NotStarted, RecordStore, Route,
    TxManager, TxParts, TxSettings, TxWatch, Unwatched, record_opening, record_settling,
};
