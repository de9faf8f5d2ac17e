//! Several relayers: who is well, and who has the least to do.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::join_all;
use landfall_core::Clock;
use landfall_core::rail::EndpointHealth;
use landfall_rpc::Transport;

use super::client::Relayer;
use super::settings::{BadRelayer, RelayerSettings};

/// How often each is asked whether it is well.
const CHECK_EVERY: Duration = Duration::from_secs(30);

/// The relayers of one chain.
pub struct Relayers {
    all: Vec<Relayer>,
}

impl Relayers {
    pub fn new(
        settings: Vec<RelayerSettings>,
        transport: &Arc<dyn Transport>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Relayers, BadRelayer> {
        let named = |name: &str| settings.iter().filter(|one| one.name == name).count();
        if settings.is_empty() || settings.iter().any(|one| named(&one.name) > 1) {
            return Err(BadRelayer::Names);
        }
        let all = settings.into_iter();
        let all = all.map(|one| Relayer::new(one, transport.clone(), clock.clone()));
        Ok(Relayers { all: all.collect::<Result<_, _>>()? })
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(Relayer::name)
    }

    pub fn get(&self, name: &str) -> Option<&Relayer> {
        self.all.iter().find(|relayer| relayer.name() == name)
    }

    /// Who is to be handed the next call: the named one if it is well, else the least loaded of
    /// those that are; if none is, one that has only failed a moment ago. None where all breakers
    /// are open: nothing is handed over then.
    pub fn choose(&self, named: &str) -> Option<&Relayer> {
        if let Some(named) = self.get(named).filter(|relayer| relayer.is_up()) {
            return Some(named);
        }
        let standing = |relayer: &Relayer| {
            let health = relayer.health();
            (!health.breaker_open).then(|| (!health.up, relayer.load()))
        };
        let standing = self.all.iter().filter_map(|one| Some((standing(one)?, one)));
        standing.min_by_key(|(standing, _)| *standing).map(|(_, relayer)| relayer)
    }

    /// As their calls have shown them; makes none.
    pub fn health(&self) -> Vec<EndpointHealth> {
        self.all.iter().map(Relayer::health).collect()
    }

    /// Asks each whether it is well.
    pub async fn check(&self) -> Vec<Result<(), landfall_core::rail::RailError>> {
        join_all(self.all.iter().map(Relayer::check)).await
    }
}

/// Asks all of them now and every half minute, as long as there is anybody else who knows them.
pub async fn watch(relayers: Weak<Relayers>, clock: Arc<dyn Clock>) {
    while let Some(relayers) = relayers.upgrade() {
        for failed in relayers.check().await.into_iter().filter_map(Result::err) {
            tracing::warn!(%failed, "a relayer is not well");
        }
        drop(relayers);
        clock.sleep(CHECK_EVERY).await;
    }
}
