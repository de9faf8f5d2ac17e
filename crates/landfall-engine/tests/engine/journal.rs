//! What the log says of each transfer.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};

use crate::world::World;

/// Keeps the lines about transfers, as text.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, "{field}={value:?} ").expect("a String takes all");
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "landfall::transfers"
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        self.0.lock().push(fields.0);
    }
}

#[tokio::test(start_paused = true)]
async fn every_step_of_a_transfer_is_a_line_under_its_id_with_how_long_it_took() {
    let lines = Lines::default();
    let _kept = tracing::subscriber::set_default(lines.clone());
    let world = World::new(1).await;
    world.submit("good", "alice.near", 1).await;
    world.submit("bad", "poison.near", 1).await;
    world.sleep(30_000).await;
    let lines = lines.0.lock().clone();
    let about = |key: &str| {
        let named = format!("transactionId={key} ");
        let of_it: Vec<&String> = lines.iter().filter(|line| line.contains(&named)).collect();
        of_it
    };
    let (good, bad) = (about("good"), about("bad"));
    let is = |line: &str, action: &str| line.contains(&format!("action=\"{action}\""));
    assert!(is(good[0], "message_received") && good[0].contains("messageId="), "{good:?}");
    assert!(good[1..good.len() - 1].iter().all(|line| is(line, "processing")), "{good:?}");
    let last = good[good.len() - 1];
    assert!(is(last, "success") && last.contains("duration_ms="), "{last}");
    let last = bad[bad.len() - 1];
    assert!(is(last, "failure") && last.contains("error="), "{last}");
}
