//! How many hints a second pass through the ring. `cargo run --example ring_hints`.

use std::sync::Arc;
use std::time::Instant;

use landfall_conformance::pass_hints;
use landfall_core::TransferId;
use landfall_queue_ring::RingQueue;

const HINTS: u64 = 20_000;

#[tokio::main]
async fn main() {
    let ring = Arc::new(RingQueue::new(HINTS as usize));
    let started = Instant::now();
    pass_hints(ring.clone(), ring, (0..HINTS).map(TransferId).collect()).await;
    println!("ring: {:.0} hints/s", HINTS as f64 / started.elapsed().as_secs_f64());
}
