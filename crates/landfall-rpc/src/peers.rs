//! The nodes of one network, each used only once it has shown that it serves it.
//!
//! **Invariant:** an endpoint is used only after it has shown that it serves the configured
//! network: the chain of the configured first block, or else of the one that a quorum names.
//! Not here: what a quorum says (`quorum`), how a ledger's nodes say who they are (the rails).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use landfall_core::clock::Clock;
use landfall_core::ledger::RailError;
use parking_lot::Mutex;

use crate::endpoints::Endpoints;
use crate::quorum::{Said, shared};

/// How long after a failed introduction an endpoint is asked again, in milliseconds.
pub const INTRODUCTION_MS: u64 = 2_000;

/// Which chain a node says it serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introduction {
    pub network: String,
    /// The hash of the chain's first block.
    pub first_block: String,
}

/// How a ledger's nodes are asked who they are.
#[async_trait]
pub trait Introducer: Send + Sync + 'static {
    /// What one endpoint says, or why that is not known.
    async fn ask(&self, endpoints: &Endpoints, endpoint: usize) -> Result<Introduction, String>;
}

/// The nodes of the configured network.
pub struct Peers {
    pub endpoints: Endpoints,
    pub clock: Arc<dyn Clock>,
    network: String,
    introducer: Box<dyn Introducer>,
    /// The hash of the first block, once it is known.
    genesis: Mutex<Option<String>>,
    /// The first block that each endpoint has named.
    named: Mutex<Vec<Said<String>>>,
    introduced: Mutex<Vec<bool>>,
    introduced_count: AtomicUsize,
    next_introduction_ms: Mutex<u64>,
}

pub fn unavailable(error: impl std::fmt::Display) -> RailError {
    RailError::Unavailable(error.to_string())
}

impl Peers {
    /// `genesis` is the hash of the first block, if the configuration pins it; otherwise it is
    /// the one that a quorum names.
    pub fn new(
        endpoints: Endpoints,
        clock: Arc<dyn Clock>,
        introducer: impl Introducer,
        network: String,
        genesis: Option<String>,
    ) -> Peers {
        let count = endpoints.count();
        for endpoint in 0..count {
            endpoints.exclude(endpoint, Some("not yet known to serve the network".into()));
        }
        Peers {
            endpoints,
            clock,
            network,
            introducer: Box::new(introducer),
            genesis: Mutex::new(genesis),
            named: Mutex::default(),
            introduced: Mutex::new(vec![false; count]),
            introduced_count: AtomicUsize::new(0),
            next_introduction_ms: Mutex::new(0),
        }
    }

    /// Waits until a quorum of endpoints serves the network for sure, or none is left to ask.
    pub async fn introduce(&self) -> Result<(), RailError> {
        let quorum = self.endpoints.quorum();
        if self.introduced_count.load(Ordering::Acquire) >= quorum {
            return Ok(());
        }
        if self.introduction_due() {
            self.introduce_until(quorum).await;
        }
        match self.introduced_count.load(Ordering::Acquire) {
            0 => Err(RailError::Unavailable(self.why_none())),
            _ => Ok(()),
        }
    }

    /// Asks until a quorum is introduced, or nobody is left to ask.
    pub async fn introduce_quorum(&self) {
        let quorum = self.endpoints.quorum();
        if self.introduced_count.load(Ordering::Acquire) < quorum {
            self.introduce_until(quorum).await;
        }
    }

    /// Asks those that have not answered yet. For calls that nobody waits for.
    pub async fn introduce_rest(&self) {
        let count = self.endpoints.count();
        if self.introduced_count.load(Ordering::Acquire) < count && self.introduction_due() {
            self.introduce_until(count).await;
        }
    }

    /// Asks all that have not answered yet, now: whoever may object must be heard.
    pub async fn introduce_all(&self) {
        self.introduce_until(self.endpoints.count()).await;
    }

    fn introduction_due(&self) -> bool {
        let now_ms = self.clock.now_ms();
        let mut next_ms = self.next_introduction_ms.lock();
        let none_yet = self.introduced_count.load(Ordering::Acquire) == 0;
        // A clock that was set back must not silence it.
        let due = none_yet || now_ms >= *next_ms || *next_ms - now_ms > INTRODUCTION_MS;
        if due {
            *next_ms = now_ms + INTRODUCTION_MS;
        }
        due
    }

    async fn introduce_until(&self, enough: usize) {
        let strangers: Vec<usize> = {
            let introduced = self.introduced.lock();
            (0..introduced.len()).filter(|endpoint| !introduced[*endpoint]).collect()
        };
        let mut asked: FuturesUnordered<_> =
            strangers.into_iter().map(|endpoint| self.introduce_one(endpoint)).collect();
        while let Some(outcome) = asked.next().await {
            if let Err((endpoint, why)) = outcome {
                tracing::warn!(endpoint = self.endpoints.origin(endpoint), %why, "not used");
            }
            if self.introduced_count.load(Ordering::Acquire) >= enough {
                return;
            }
        }
    }

    /// Lets one endpoint in if it serves the network.
    pub async fn introduce_one(&self, endpoint: usize) -> Result<(), (usize, String)> {
        let named = self.introducer.ask(&self.endpoints, endpoint).await;
        let Introduction { network, first_block } = named.map_err(|why| (endpoint, why))?;
        let refuse = |why: String| {
            self.endpoints.exclude(endpoint, Some(why.clone()));
            Err((endpoint, why))
        };
        if network != self.network {
            return refuse(format!("serves {network}, not {}", self.network));
        }
        let Some(genesis) = self.first_block(endpoint, &first_block) else {
            return Err((endpoint, "no quorum names its first block yet".to_owned()));
        };
        if first_block != genesis {
            return refuse(format!("begins at {first_block}, not {genesis}"));
        }
        self.let_in(endpoint);
        let named = std::mem::take(&mut *self.named.lock());
        for other in named.into_iter().filter(|other| other.fact == genesis) {
            self.let_in(other.endpoint);
        }
        Ok(())
    }

    /// The chain's first block: pinned, or as a quorum names it.
    fn first_block(&self, endpoint: usize, named: &str) -> Option<String> {
        let mut genesis = self.genesis.lock();
        if genesis.is_none() {
            let mut all = self.named.lock();
            all.retain(|other| other.endpoint != endpoint);
            all.push(Said { endpoint, fact: named.to_owned() });
            *genesis = shared(&all, self.endpoints.quorum()).cloned();
        }
        genesis.clone()
    }

    fn let_in(&self, endpoint: usize) {
        self.endpoints.exclude(endpoint, None);
        let mut introduced = self.introduced.lock();
        if !std::mem::replace(&mut introduced[endpoint], true) {
            self.introduced_count.fetch_add(1, Ordering::AcqRel);
        }
    }

    pub fn is_introduced(&self, endpoint: usize) -> bool {
        self.introduced.lock()[endpoint]
    }

    /// The endpoints that serve the network for sure.
    pub fn introduced(&self) -> Vec<usize> {
        let introduced = self.introduced.lock();
        (0..introduced.len()).filter(|endpoint| introduced[*endpoint]).collect()
    }

    fn why_none(&self) -> String {
        let reasons = self.endpoints.snapshot().into_iter();
        let reasons: Vec<String> = reasons
            .map(|one| format!("{}: {}", one.origin, one.excluded.unwrap_or_default()))
            .collect();
        format!("no endpoint serves {} for sure ({})", self.network, reasons.join("; "))
    }
}
