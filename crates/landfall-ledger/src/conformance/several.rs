//! Several instances of one service on one database, called in turn as if they were one: what one
//! writer gives for free must hold between instances that know nothing of each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;

use crate::book::{Balances, Book, Result, Span, Statement};
use crate::words::{AccountId, Answer, Balance, Contract, Operation, Outcome, ReqId, Verb};

/// Books of the same service. Each call goes to another one than the call before it.
pub(super) struct Several {
    first: Arc<dyn Book>,
    others: Vec<Arc<dyn Book>>,
    calls: AtomicUsize,
}

impl Several {
    pub(super) fn new(first: Arc<dyn Book>, others: Vec<Arc<dyn Book>>) -> Several {
        Several { first, others, calls: AtomicUsize::new(0) }
    }

    fn next(&self) -> &dyn Book {
        let turn = self.calls.fetch_add(1, Ordering::Relaxed) % (self.others.len() + 1);
        self.others.get(turn).unwrap_or(&self.first).as_ref()
    }
}

#[async_trait]
impl Book for Several {
    fn contract(&self) -> &Contract {
        self.first.contract()
    }

    async fn apply(&self, operations: Vec<Operation>, at_ms: u64) -> Result<Vec<Answer>> {
        self.next().apply(operations, at_ms).await
    }

    async fn query(&self, req_id: ReqId, verb: Verb) -> Result<Option<Outcome>> {
        self.next().query(req_id, verb).await
    }

    async fn block(&self, account: AccountId, blocked: bool) -> Result<bool> {
        self.next().block(account, blocked).await
    }

    async fn accounts(&self, user_id: u64) -> Result<Vec<Balance>> {
        self.next().accounts(user_id).await
    }

    async fn balances(&self, after: u64, limit: usize) -> Result<Balances> {
        self.next().balances(after, limit).await
    }

    async fn statement(&self, span: Span) -> Result<Statement> {
        self.next().statement(span).await
    }
}
