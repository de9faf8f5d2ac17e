//! The built-in service keeps the contract, and transfers between two of them end as they should.

use std::sync::Arc;

use landfall_core::courier::{Courier, Step, Turn};
use landfall_core::internal::{Order, State};
use landfall_core::{Move, NewTransfer, Payload, Transfer, TransferId, machine};
use landfall_ledger::Kind;
use landfall_rail_internal::conformance::{Account, Ground, exercise_service};
use landfall_rail_internal::{InternalRail, ServiceAdapter};

use crate::ground::{BuiltIn, Noon};

#[tokio::test]
async fn the_built_in_service_keeps_the_contract_over_http() {
    for (name, kind) in [("funding", Kind::Freeze), ("trading", Kind::Direct)] {
        let ground = BuiltIn::start(name, kind).await;
        assert_eq!(exercise_service(&ground).await, Ok(()), "{name}");
        let told = ground.service.check().await.expect("its own settings");
        assert!(told.ends_with("agrees with its contract"), "{told}");
        assert_eq!(ground.service.knows_user(1).await, Some(false));
        assert_eq!(ground.service.health().errors, 0, "{:?}", ground.service.health());
    }
}

/// Two services and a user who holds 100 at each.
struct World {
    funding: BuiltIn,
    trading: BuiltIn,
    account: Account,
    rail: InternalRail,
}

impl World {
    async fn new() -> World {
        let funding = BuiltIn::start("funding", Kind::Freeze).await;
        let trading = BuiltIn::start("trading", Kind::Direct).await;
        let account = funding.account(100).await;
        trading.fund(account, 100).await;
        let services: Vec<Arc<dyn ServiceAdapter>> =
            vec![funding.service.clone(), trading.service.clone()];
        let rail = InternalRail::new(services, Arc::new(Noon)).expect("two services");
        World { funding, trading, account, rail }
    }

    /// Drives a transfer to its end, each step stored before the next.
    async fn moved(&self, source: &str, target: &str, amount: u64) -> State {
        let mut transfer = self.transfer(source, target, amount);
        let mut first = false;
        while !transfer.state.is_final() {
            let step = self.rail.act(&transfer, Turn { first, since_ms: 0 }).await;
            let Step::Go(known) = step else { panic!("{step:?} in {}", transfer.state) };
            let mut stored = Move::of(&transfer, 0);
            if known.confirmed {
                stored = stored.confirm();
            }
            for event in known.events {
                stored = stored.fire(event).expect("a legal step");
            }
            transfer = stored.applied_to(&transfer);
            first = true;
        }
        let machine::State::Internal(state) = transfer.state else { panic!("an order") };
        state
    }

    fn transfer(&self, source: &str, target: &str, amount: u64) -> Transfer {
        let Account { user_id, asset_id } = self.account;
        let order = Order {
            source: source.to_owned(),
            target: target.to_owned(),
            user_id,
            asset_id,
            asset: "BTC".to_owned(),
            decimals: 8,
            amount,
            client_key: None,
        };
        let scope = (String::new(), self.funding.req_id());
        let (fingerprint, payload) = (order.fingerprint(), Payload::Internal(order));
        let first = machine::State::Internal(State::Init);
        let new = NewTransfer::begin(scope, fingerprint, payload, first, &[], 0);
        new.expect("a transfer").accepted_as(TransferId(1))
    }

    async fn check(&self, funding: (u64, u64), trading: (u64, u64)) {
        let held =
            (self.funding.balance(self.account).await, self.trading.balance(self.account).await);
        assert_eq!(held, (funding, trading));
    }
}

#[tokio::test]
async fn funds_move_from_funding_to_trading_and_the_frozen_part_is_gone() {
    let world = World::new().await;
    assert_eq!(world.moved("funding", "trading", 30).await, State::Committed);
    world.check((70, 0), (130, 0)).await;
}

#[tokio::test]
async fn funds_move_from_trading_to_funding() {
    let world = World::new().await;
    assert_eq!(world.moved("trading", "funding", 30).await, State::Committed);
    world.check((130, 0), (70, 0)).await;
}

#[tokio::test]
async fn a_refused_withdrawal_fails_and_moves_nothing() {
    let world = World::new().await;
    assert_eq!(world.moved("funding", "trading", 101).await, State::Failed);
    world.check((100, 0), (100, 0)).await;
}

#[tokio::test]
async fn a_refused_deposit_is_rolled_back_and_the_funds_return() {
    let world = World::new().await;
    world.trading.refuse_deposits(world.account, true).await;
    assert_eq!(world.moved("funding", "trading", 30).await, State::RolledBack);
    world.check((100, 0), (100, 0)).await;
    world.funding.refuse_deposits(world.account, true).await;
    world.trading.refuse_deposits(world.account, false).await;
    assert_eq!(world.moved("trading", "funding", 30).await, State::RolledBack);
    world.check((100, 0), (100, 0)).await;
}
