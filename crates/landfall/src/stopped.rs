//! A relay that is stopped: its folder and its store, taken by a command that writes to them.

use std::sync::Arc;

use landfall_core::store::Store;

use crate::cli::ReadArguments;
use crate::config::{self, Config, Need};
use crate::dev::ground::{Ground, ledger_sources};
use crate::failure::{Failure, Result};
use crate::folder::Folder;
use crate::wire;

/// A store that is open to be written to, for this process alone.
pub struct StoppedRelay {
    pub config: Config,
    pub store: Arc<dyn Store>,
    home: Home,
}

/// The data folder, taken, with the ledger that is kept in it where it is a trial's.
enum Home {
    Own(Folder),
    Trial(Box<Ground>),
}

impl StoppedRelay {
    /// Refused while a relay runs: two writers would not see each other's work.
    pub async fn take(read: &ReadArguments) -> Result<StoppedRelay> {
        let (sources, ground) = ledger_sources(&read.config, &read.data).await?;
        let config = config::load(&sources, Need::Ledger)?;
        // Reading first: a store that is not there must not be made, nor its folder.
        drop(wire::open_existing_store(&config).await?);
        let stopped = |failure: Failure| {
            Failure::Unable(format!(
                "this writes to the store, so the relay must be stopped first: stop it, give this \
                 command again, start it again ({failure})"
            ))
        };
        let home = match ground {
            Some(ground) => Home::Trial(Box::new(ground)),
            None => Home::Own(Folder::take(&config.instance.data).map_err(stopped)?),
        };
        let store = wire::open_existing_store_to_write(&config, wire::clock()).await;
        Ok(StoppedRelay { config, home, store: store.map_err(stopped)? })
    }

    pub fn folder(&self) -> &Folder {
        match &self.home {
            Home::Own(folder) => folder,
            Home::Trial(ground) => &ground.folder,
        }
    }

    /// The name under which it holds its lanes. As its folder is ours, no relay of that name runs.
    pub fn instance(&self) -> Result<String> {
        self.folder().instance_name(self.config.instance.name.as_deref())
    }
}
