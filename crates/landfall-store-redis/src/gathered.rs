//! The jobs of many callers, gathered into one script.
//!
//! **Rule:** a caller waits no longer than its own time: what stands in line before a server that
//! has stalled is answered as unavailable. It may still run later; every operation can be repeated.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use landfall_core::store::StoreError;
use landfall_gather::{Gather, Gone, Options, Refused};

use crate::RedisOptions;
use crate::fault::{Done, corrupt, unavailable};
use crate::link::Link;
use crate::script::Args;

/// Callers of one kind of job, each answered by an `A`.
pub(crate) struct Gathered<A> {
    gather: Gather<Args, A, StoreError>,
    /// One call's time in line, and one under way.
    patience: Duration,
}

impl<A: Send + 'static> Gathered<A> {
    /// `run` gives one answer per job, in order.
    pub(crate) fn start<F>(
        link: &Arc<Link>,
        options: &RedisOptions,
        run: impl Fn(Arc<Link>, Vec<Args>) -> F + Clone + Send + Sync + 'static,
    ) -> Gathered<A>
    where
        F: Future<Output = Done<Vec<A>>> + Send + 'static,
    {
        let link = link.clone();
        let run = move |jobs: Vec<Args>| {
            let asked = jobs.len();
            let answering = run(link.clone(), jobs);
            async move {
                let answers = answering.await?;
                if answers.len() != asked {
                    let given = answers.len();
                    return Err(corrupt(format!("a script answered {given} of {asked} jobs")));
                }
                Ok(answers)
            }
        };
        let gather = Options { batch_max: options.batch_max, flights: options.flights };
        Gathered { gather: Gather::start(gather, run), patience: 2 * options.call_timeout }
    }

    pub(crate) async fn call(&self, jobs: Vec<Args>) -> Done<Vec<A>> {
        let called = async { self.gather.call(jobs).await.map_err(|Gone| Refused::Gone) };
        self.within(called).await
    }

    /// For a client, who is better told at once than left to stand in a long line.
    pub(crate) async fn call_now(&self, jobs: Vec<Args>) -> Done<Vec<A>> {
        self.within(self.gather.call_now(jobs)).await
    }

    async fn within(
        &self,
        called: impl Future<Output = Result<Done<Vec<A>>, Refused>>,
    ) -> Done<Vec<A>> {
        match tokio::time::timeout(self.patience, called).await {
            Ok(Ok(answered)) => answered,
            Ok(Err(Refused::Gone)) => Err(unavailable("redis: the batch ended without an answer")),
            Ok(Err(Refused::Full)) => Err(unavailable("redis: too much is waiting")),
            Err(_) => Err(unavailable(format!("redis: no answer within {:?}", self.patience))),
        }
    }
}
