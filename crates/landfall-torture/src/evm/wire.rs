//! One instance's way to the nodes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{hex, keccak256};
use async_trait::async_trait;
use bytes::Bytes;
use landfall_rpc::{HttpAnswer, Transport, TransportError, Url};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::network::Network;
use crate::seat::Seat;
use crate::wire::{Deliver, arrive_late, carry};

/// Bytes of the last field of a signature, after the mark of its length.
const LAST_FIELD: (u8, usize) = (0xa0, 32);

/// Whose signatures went bad after they were made: for ever the same, whoever sends them.
pub type Spoilt = Mutex<BTreeMap<[u8; 32], bool>>;

pub struct FaultyWire {
    pub seat: Arc<Seat>,
    pub inner: Arc<Network>,
    pub spoilt: Arc<Spoilt>,
}

impl FaultyWire {
    /// What leaves the instance in place of a broadcast whose signature is spoilt: a number that
    /// this curve does not have.
    fn spoilt(&self, request: &Value) -> Option<Bytes> {
        let rate = self.seat.plan.evm.spoilt;
        let mut raw = hex::decode(request["params"][0].as_str()?).ok()?;
        let at = raw.len().checked_sub(LAST_FIELD.1).filter(|at| *at > 0)?;
        let fits = rate > 0.0 && raw[at - 1] == LAST_FIELD.0;
        let mut all = self.spoilt.lock();
        let chance = || fits && self.seat.dice.strikes(rate);
        if !*all.entry(keccak256(&raw).0).or_insert_with(chance) {
            return None;
        }
        raw[at..].fill(0xff);
        let mut request = request.clone();
        request["params"][0] = json!(hex::encode_prefixed(raw));
        Some(Bytes::from(request.to_string()))
    }
}

#[async_trait]
impl Transport for FaultyWire {
    async fn post(
        &self,
        url: &Url,
        body: Bytes,
        timeout: Duration,
    ) -> Result<HttpAnswer, TransportError> {
        let request: Value = serde_json::from_slice(&body).unwrap_or_default();
        let method = request["method"].as_str().unwrap_or_default();
        let name = format!("{} {method}", url.origin());
        let number = self.seat.before(&name).await;
        let sent = method == "eth_sendRawTransaction";
        let spoilt = sent.then(|| self.spoilt(&request)).flatten();
        let (inner, url, body) = (self.inner.clone(), url.clone(), spoilt.unwrap_or(body));
        let deliver: Deliver = Arc::new(move |patience| {
            let (inner, url, body) = (inner.clone(), url.clone(), body.clone());
            Box::pin(async move { inner.post(&url, body, patience).await })
        });
        if sent && self.seat.dice.strikes(self.seat.plan.evm.sent_late) {
            return Err(arrive_late(&self.seat, timeout, deliver, None).await);
        }
        carry(&self.seat, (&name, number), timeout, deliver, None).await
    }
}
