//! A built-in service on a loopback port, with an adapter that calls it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use landfall_core::Clock;
use landfall_ledger::{AccountId, Book, Contract, Kind, MemoryBook, Operation, Terms};
use landfall_rail_internal::conformance::{Account, Ground};
use landfall_rail_internal::{HttpService, HttpSettings, ServiceAdapter};
use landfall_rpc::{HttpTransport, Url};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A clock that stands still: nothing here waits for it.
pub struct Noon;

#[async_trait]
impl Clock for Noon {
    fn now_ms(&self) -> u64 {
        1_700_000_000_000
    }
    async fn sleep(&self, _: Duration) {
        tokio::task::yield_now().await;
    }
}

pub struct BuiltIn {
    pub book: Arc<MemoryBook>,
    pub service: Arc<HttpService>,
    numbers: AtomicU64,
    server: JoinHandle<std::io::Result<()>>,
}

impl Drop for BuiltIn {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl BuiltIn {
    pub async fn start(name: &str, kind: Kind) -> BuiltIn {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let book = Arc::new(MemoryBook::new(Contract::new(name, kind)));
        let served = landfall_ledger::serve(
            listener,
            book.clone(),
            Arc::new(Noon),
            std::future::pending::<()>(),
        );
        let server = tokio::spawn(served);
        let base = Url::parse(&format!("http://{address}")).expect("a URL");
        let settings = HttpSettings::new(name, base, kind == Kind::Freeze, None);
        let transport = Arc::new(HttpTransport::new());
        let service = HttpService::new(settings, transport, Arc::new(Noon)).expect("a service");
        BuiltIn { book, service: Arc::new(service), numbers: AtomicU64::new(1), server }
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::SeqCst)
    }

    /// Available and frozen.
    pub async fn balance(&self, of: Account) -> (u64, u64) {
        let accounts = self.book.accounts(of.user_id).await.expect("accounts");
        let account = accounts.iter().find(|one| one.account.asset_id == of.asset_id);
        account.map_or((0, 0), |one| (one.available, one.frozen))
    }
}

fn id(account: Account) -> AccountId {
    AccountId { user_id: account.user_id, asset_id: account.asset_id }
}

#[async_trait]
impl Ground for BuiltIn {
    fn service(&self) -> &dyn ServiceAdapter {
        &*self.service
    }

    fn req_id(&self) -> String {
        format!("6f1c3f0e-8a51-4d0b-9d8e-{:012x}", self.number())
    }

    async fn account(&self, holds: u64) -> Account {
        let account = Account { user_id: 4_000 + self.number(), asset_id: 1 };
        self.fund(account, holds).await;
        account
    }

    async fn fund(&self, account: Account, amount: u64) {
        let amount = amount.try_into().expect("more than nothing");
        let terms = Terms { account: id(account), amount };
        let reference = format!("set-up {}", self.number());
        let funded = self.book.apply(vec![Operation::Fund { reference, terms }], 0).await;
        assert_eq!(funded, Ok(vec![landfall_ledger::Answer::DONE]));
    }

    async fn available(&self, account: Account) -> u64 {
        self.balance(account).await.0
    }

    async fn refuse_deposits(&self, account: Account, refuse: bool) -> bool {
        self.book.block(id(account), refuse).await.expect("blocked or freed")
    }

    async fn pause(&self) {
        tokio::task::yield_now().await;
    }
}
