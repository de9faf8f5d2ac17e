//! One instance's way to the nodes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use landfall_rpc::{HttpAnswer, Transport, TransportError, Url};
use landfall_sim_near::rpc;
use near_crypto::{KeyType, Signature};
use near_primitives::borsh;
use near_primitives::hash::CryptoHash;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::network::{Network, node_of};
use crate::seat::Seat;
use crate::wire::{Deliver, arrive_late, carry};

/// Whose signatures went bad after they were checked: for ever the same, whoever sends them, so
/// that nobody has one of them with a good one.
#[derive(Default)]
pub struct Spoilt(Mutex<BTreeMap<CryptoHash, bool>>);

impl Spoilt {
    fn is_so(&self, hash: CryptoHash, chance: impl FnOnce() -> bool) -> bool {
        *self.0.lock().entry(hash).or_insert_with(chance)
    }
}

pub struct FaultyWire {
    pub seat: Arc<Seat>,
    pub inner: Arc<Network>,
    pub spoilt: Arc<Spoilt>,
}

impl FaultyWire {
    /// What leaves the instance in place of a broadcast whose signature is spoilt.
    fn spoilt(&self, request: &Value) -> Option<Bytes> {
        let rate = self.seat.plan.near.spoilt;
        if rate == 0.0 {
            return None;
        }
        let mut signed = rpc::signed_in(request)?;
        if !self.spoilt.is_so(signed.get_hash(), || self.seat.dice.strikes(rate)) {
            return None;
        }
        signed.signature = Signature::empty(KeyType::ED25519);
        let bytes = borsh::to_vec(&signed).expect("a Vec takes every byte");
        let mut request = request.clone();
        request["params"]["signed_tx_base64"] = json!(BASE64.encode(bytes));
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
        let request = serde_json::from_slice(&body).unwrap_or_default();
        let body = self.spoilt(&request).unwrap_or(body);
        let name = format!("{} {}", url.origin(), rpc::method_of(&request));
        let number = self.seat.before(&name).await;
        // What it is asked it must be able to answer. What it is given to pass on may be lost.
        if self.seat.plan.near.shelters(node_of(url)) && rpc::method_of(&request) != "send_tx" {
            let answer = self.inner.post(url, body, timeout).await;
            self.seat.after(&name, number).await;
            return answer;
        }
        let sent = rpc::method_of(&request) == "send_tx";
        let (inner, url) = (self.inner.clone(), url.clone());
        let deliver: Deliver = Arc::new(move |patience| {
            let (inner, url, body) = (inner.clone(), url.clone(), body.clone());
            Box::pin(async move { inner.post(&url, body, patience).await })
        });
        if sent && self.seat.dice.strikes(self.seat.plan.near.sent_late) {
            return Err(arrive_late(&self.seat, timeout, deliver, None).await);
        }
        carry(&self.seat, (&name, number), timeout, deliver, None).await
    }
}
