//! The nodes of a ledger, whichever it is, as its section of the configuration says.

use std::sync::Arc;
use std::time::Duration;

use landfall_core::Clock;
use landfall_rpc::{BreakerSettings, Endpoints, HttpTransport, NoEndpoints, Settings, Url};

use super::number;
use crate::config::Nodes;

/// The calls to them.
pub fn endpoints(
    urls: &[Url],
    nodes: &Nodes,
    clock: Arc<dyn Clock>,
) -> Result<Endpoints, NoEndpoints> {
    let settings = Settings {
        timeout: Duration::from_millis(nodes.rpc_timeout_ms),
        breaker: BreakerSettings {
            failures_to_open: number(nodes.breaker_failures),
            open_ms: nodes.breaker_open_ms,
            open_max_ms: nodes.breaker_open_max_ms,
            successes_to_close: number(nodes.breaker_successes),
            ..BreakerSettings::default()
        },
        quorum: nodes.quorum.map(|quorum| quorum as usize),
    };
    Endpoints::new(urls.to_vec(), Arc::new(HttpTransport::new()), clock, settings)
}
