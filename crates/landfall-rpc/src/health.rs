//! How a node is, in words for people.

use landfall_core::rail::EndpointHealth;

use crate::breaker::BreakerState;
use crate::endpoints::EndpointSnapshot;

/// Nodes have no names; they are known by their place in the configuration, from 1.
pub fn health((index, one): (usize, EndpointSnapshot)) -> EndpointHealth {
    let is_caught = one.caught.as_ref().is_some_and(|caught| caught.asked_last);
    let detail = match (&one.excluded, one.breaker) {
        (Some(why), _) => why.clone(),
        _ if is_caught => "caught contradicting a quorum, asked last".to_owned(),
        (None, BreakerState::Closed) if one.healthy => "ok".to_owned(),
        (None, BreakerState::Closed) => "failed a moment ago".to_owned(),
        (None, BreakerState::Open) => "breaker open".to_owned(),
        (None, BreakerState::HalfOpen) => "breaker half open".to_owned(),
    };
    EndpointHealth {
        name: format!("node-{}", index + 1),
        endpoint: one.origin,
        up: one.healthy,
        detail,
        calls: one.calls,
        errors: one.errors,
        breaker_open: one.breaker != BreakerState::Closed,
        mean_latency_ms: match one.calls {
            0 => 0.0,
            calls => one.latency_total_ms as f64 / calls as f64,
        },
        caught: one.caught,
    }
}
