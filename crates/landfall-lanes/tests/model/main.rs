//! A model of the gate and the takeover: every way in which two processes, a store and a ledger can
//! get in each other's way on one lane, searched through.
//!
//! What it asks is the real code: `landfall_lanes::gate` for what may be signed,
//! `landfall_core::opening` for what may be stored. What it plays is the rest: the holders' steps
//! (`holder`, after `driver.rs` and `resolve.rs`), the store's compare-and-set and writes that
//! arrive late (`store`), a ledger of each order (`ledger`). `properties` says what must hold.
//!
//! The search is our own: a hundred lines, where a model checker's crate would bring a web server
//! for an explorer that nobody opens.
//! Not here: what nodes say (the rails), stores that forget and marks (torture), several lanes.

mod holder;
mod ledger;
mod properties;
mod search;
mod store;
mod world;

use landfall_core::ledger::{Manner, Order};

use properties::{Broken, has_means};
use search::search;
use world::{Fault, Limits, Model};

/// A window of two, on a ledger of the order.
fn model(order: Order, limits: Limits) -> Model {
    Model { manner: Manner { order, window: 2, ..Manner::OVERTAKES }, limits, fault: None }
}

/// Two payments on their way at once.
const WINDOW: Limits = Limits { transfers: 2, epochs: 2, nonces: 2, variants: 0 };
/// One payment that is decided and, if need be, made again.
const AGAIN: Limits = Limits { transfers: 1, epochs: 2, nonces: 3, variants: 0 };

fn overtaking() -> [Model; 2] {
    [WINDOW, AGAIN].map(|limits| model(Order::Overtakes, limits))
}

fn queueing() -> [Model; 2] {
    let window = Limits { variants: 1, ..WINDOW };
    let again = Limits { epochs: 3, nonces: 2, variants: 1, ..AGAIN };
    [window, again].map(|limits| model(Order::Queues, limits))
}

fn free() -> [Model; 2] {
    [WINDOW, Limits { epochs: 3, ..AGAIN }].map(|limits| model(Order::Free, limits))
}

/// Everything is seen, nothing is broken, and there is a way to the end from wherever the model has
/// the means left.
fn check(models: [Model; 2]) {
    for model in models {
        let found = search(&model, |_| true);
        let (order, limits) = (model.manner.order, model.limits);
        println!(
            "{order:?}, {limits:?}: {} states, {} of them the end, by {} steps",
            found.states, found.settled, found.steps
        );
        if let Some((broken, way)) = found.broken {
            panic!("{order:?}: {broken:?} by {way:#?}");
        }
        assert!(found.settled > 0, "{order:?}: nothing is ever settled");
        let stranded = found.stranded.iter().find(|world| has_means(world, &model));
        assert_eq!(stranded, None, "{order:?}: no way leads on from here");
    }
}

#[test]
fn nothing_breaks_where_a_later_nonce_overtakes() {
    check(overtaking());
}

#[test]
fn nothing_breaks_where_attempts_queue_and_have_variants() {
    check(queueing());
}

#[test]
fn nothing_breaks_where_attempts_are_free_of_each_other() {
    check(free());
}

/// Without its rule the model breaks, and in this very way.
fn breaks(fault: Fault, expected: Broken, models: [Model; 2]) {
    let broken = models.into_iter().find_map(|model| {
        let model = Model { fault: Some(fault), ..model };
        search(&model, |broken| broken == expected).broken
    });
    let (_, way) = broken.unwrap_or_else(|| panic!("{fault:?} leads to no {expected:?}"));
    println!("{fault:?} leads to {expected:?} in {} steps", way.len());
}

#[test]
fn without_the_epoch_check_a_process_that_slept_stores_and_pays_again() {
    breaks(Fault::EpochUnchecked, Broken::OldEpochStored, overtaking());
    breaks(Fault::EpochUnchecked, Broken::SunkMayLand, overtaking());
    breaks(Fault::EpochUnchecked, Broken::PaidTwice, free());
}

#[test]
fn without_the_check_that_it_is_still_open_an_attempt_is_decided_twice() {
    breaks(Fault::DecidedUnchecked, Broken::DecidedAgain, queueing());
    breaks(Fault::DecidedUnchecked, Broken::PaidTwice, free());
}

#[test]
fn a_nonce_that_is_given_back_is_shared() {
    breaks(Fault::NonceReused, Broken::NonceShared, overtaking());
}

#[test]
fn a_hint_that_is_believed_over_the_store_pays_twice() {
    breaks(Fault::HintOverStore, Broken::PaidTwice, overtaking());
}

#[test]
fn a_window_that_ignores_the_unsure_signs_past_them() {
    breaks(Fault::UnsureIgnored, Broken::SignedPastUnsure, overtaking());
    breaks(Fault::UnsureIgnored, Broken::SignedPastUnsure, queueing());
}

#[test]
fn what_is_sent_before_it_is_stored_is_paid_twice() {
    breaks(Fault::SentBeforeStored, Broken::SentUnstored, overtaking());
    breaks(Fault::SentBeforeStored, Broken::PaidTwice, free());
}

#[test]
fn a_variant_that_is_sent_before_it_is_stored_is_found_out() {
    breaks(Fault::VariantSentBeforeStored, Broken::SentUnstored, queueing());
}

#[test]
fn a_death_without_proof_pays_twice() {
    for models in [overtaking(), queueing(), free()] {
        breaks(Fault::SunkWithoutProof, Broken::SunkMayLand, models);
        breaks(Fault::SunkWithoutProof, Broken::PaidTwice, models);
    }
}

#[test]
fn a_refusal_that_is_believed_of_bytes_sent_before_pays_twice() {
    breaks(Fault::RefusalBelieved, Broken::PaidTwice, overtaking());
}

#[test]
fn an_old_holder_that_sends_what_a_new_one_has_stored_makes_a_refusal_untrue() {
    breaks(Fault::RecoversAnything, Broken::SunkMayLand, overtaking());
    breaks(Fault::RecoversAnything, Broken::PaidTwice, free());
}

#[test]
fn what_is_believed_before_it_is_final_may_fall_off() {
    breaks(Fault::BelievedBeforeFinal, Broken::LandedIsNotFinal, overtaking());
}

#[test]
fn a_refusal_that_sinks_what_queues_forgets_its_variants_and_leaves_a_hole() {
    breaks(Fault::RefusalSinksQueued, Broken::SunkMayLand, queueing());
    let [_, again] = queueing();
    let model = Model { fault: Some(Fault::RefusalSinksQueued), ..again };
    let stranded = search(&model, |_| false).stranded;
    assert!(stranded.iter().any(|world| has_means(world, &model)), "nothing passes a hole");
}
