//! Mistakes that the tests beside this one must notice: each is made on purpose once.

use std::panic::{AssertUnwindSafe, catch_unwind};

use landfall_core::ledger::Order;
use landfall_core::wound::{self, Wound};

use crate::{queues, windows};

/// Whether the story falls with the mistake made, and holds without.
fn is_noticed<F: Future<Output = ()>>(wound: Wound, story: impl Fn() -> F) {
    let tell = |inflicted: Option<Wound>| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        wound::inflict(inflicted);
        let told = catch_unwind(AssertUnwindSafe(|| runtime.block_on(story())));
        wound::inflict(None);
        told
    };
    assert!(tell(None).is_ok(), "{wound:?} is no wound: the story falls without it");
    assert!(tell(Some(wound)).is_err(), "{wound:?} is not noticed");
}

#[test]
fn a_variant_that_is_stored_after_it_was_sent_is_noticed() {
    is_noticed(Wound::VariantAfterSent, queues::a_bump_is_refused_and_the_original_lands);
}

#[test]
fn a_new_nonce_while_a_variant_may_land_is_noticed() {
    is_noticed(Wound::VariantRefusedSinks, queues::a_bump_is_refused_and_the_original_lands);
}

#[test]
fn what_is_ours_by_content_and_taken_for_foreign_is_noticed() {
    is_noticed(Wound::ContentUnheeded, || async {
        let (world, _two) = queues::a_forgotten_bump_lands().await;
        world.check().await;
    });
}

#[test]
fn a_window_signed_past_an_unsure_attempt_is_noticed() {
    for order in [Order::Overtakes, Order::Queues] {
        is_noticed(Wound::SignedPastUnsure, || async move {
            assert_eq!(windows::opened_behind_an_unsure_attempt(order).await, 1);
        });
    }
}
