//! The book of an account service: a file, or a database server.

use std::path::Path;
use std::sync::Arc;

use landfall_core::Clock;
use landfall_ledger::{Book, Contract, SqliteBook, SqliteOptions};

use super::stores::SERVER_RETRY;
use crate::failure::{Failure, Result};

/// The book of that service in the data folder.
pub async fn book_in(data: &Path, contract: Contract) -> Result<Arc<dyn Book>> {
    let path = data.join(format!("{}.db", contract.name));
    let opened = tokio::task::spawn_blocking(move || {
        SqliteBook::open(&path, contract, SqliteOptions::default())
    });
    let opened = opened.await.map_err(|error| Failure::Unable(error.to_string()))?;
    Ok(Arc::new(opened.map_err(|error| Failure::Unable(error.to_string()))?))
}

/// The book of that service on a server, which is waited for if it does not answer yet. `ca`: the
/// certificates of the server's authority, where its URL cannot name them.
pub async fn book_on(
    url: &str,
    ca: Option<&Path>,
    contract: Contract,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<dyn Book>> {
    let mut warned = false;
    loop {
        match open(url, ca, contract.clone()).await {
            Err(Failure::Unable(why)) => {
                if !warned {
                    crate::show::complain(&format!("waiting for the server: {why}"));
                    warned = true;
                }
                clock.sleep(SERVER_RETRY).await;
            }
            opened => return opened,
        }
    }
}

async fn open(url: &str, ca: Option<&Path>, contract: Contract) -> Result<Arc<dyn Book>> {
    match url.split_once(':') {
        Some(("mysql", _)) => super::mysql::book(url, ca, contract).await,
        Some(("mariadb", rest)) => super::mysql::book(&format!("mysql:{rest}"), ca, contract).await,
        Some(("postgres" | "postgresql", _)) if ca.is_some() => Err(Failure::Mistaken(
            "--store-ca is for MySQL and MariaDB; with PostgreSQL the URL says it: \
             ?sslmode=verify-full&sslrootcert=FILE"
                .into(),
        )),
        Some(("postgres" | "postgresql", _)) => super::postgres::book(url, contract).await,
        // The rest may hold a password, and is not shown.
        _ => Err(Failure::Mistaken(
            "--store: accounts can be kept on a server at postgres://HOST/DATABASE or \
             mysql://HOST/DATABASE; for a file, give --data FOLDER"
                .into(),
        )),
    }
}
