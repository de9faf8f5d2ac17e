//! Many callers, few round trips: what is asked while a batch is under way goes together in the
//! next one.
//!
//! A batch of one leaves at once, so an idle store answers as fast as it can; the busier it is, the
//! larger the batches grow. Nobody waits for company.
//! **Rule:** a caller's jobs stay together and in order, and the caller gets one answer for each.
//! **Rule:** the line has an end. While a server stalls, who is at a door is sent away
//! ([`Gather::call_now`]), and workers wait until there is room ([`Gather::call`]). What nobody
//! waits for any more when its turn comes is not begun.
//! Not here: what a job is, and what to do when a batch fails (every caller in it hears of it).

use std::future::Future;
use std::sync::Arc;

use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;

/// How much goes together.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Jobs in one batch; a caller that brings more than this still goes in one.
    pub batch_max: usize,
    /// Batches under way at once, each on a connection of its own.
    pub flights: usize,
}

/// Batches' worth of jobs that may stand in line beside those under way: more would only wait
/// longer than their callers do.
const LINE_BATCHES: usize = 16;

/// The gatherer was dropped, or its batch died, before there was an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone;

/// Why jobs that would not wait were not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    Gone,
    /// Too much is in line.
    Full,
}

struct Call<J, A, E> {
    jobs: Vec<J>,
    answer: oneshot::Sender<Result<Vec<A>, E>>,
    /// Its room in line, until it is answered.
    _room: OwnedSemaphorePermit,
}

type Inbox<J, A, E> = Arc<Mutex<mpsc::UnboundedReceiver<Call<J, A, E>>>>;

/// Gathers the jobs of many callers into batches. Its tasks end with it.
pub struct Gather<J, A, E> {
    calls: mpsc::UnboundedSender<Call<J, A, E>>,
    /// For jobs in line or under way.
    room: Arc<Semaphore>,
    room_max: usize,
    _flights: JoinSet<()>,
}

impl<J, A, E> Gather<J, A, E>
where
    J: Send + 'static,
    A: Send + 'static,
    E: Clone + Send + 'static,
{
    /// `run` MUST give one answer per job, in order. Needs a runtime around it.
    pub fn start<F>(
        options: Options,
        run: impl Fn(Vec<J>) -> F + Clone + Send + Sync + 'static,
    ) -> Gather<J, A, E>
    where
        F: Future<Output = Result<Vec<A>, E>> + Send + 'static,
    {
        let (calls, inbox) = mpsc::unbounded_channel();
        let inbox = Arc::new(Mutex::new(inbox));
        let mut flights = JoinSet::new();
        for _ in 0..options.flights.max(1) {
            flights.spawn(fly(inbox.clone(), options.batch_max, run.clone()));
        }
        let room_max = options.batch_max.max(1) * (options.flights.max(1) + LINE_BATCHES);
        let room = Arc::new(Semaphore::new(room_max));
        Gather { calls, room, room_max, _flights: flights }
    }

    /// Has the jobs done, together with those of others, when there is room for them. One answer
    /// each, in order.
    pub async fn call(&self, jobs: Vec<J>) -> Result<Result<Vec<A>, E>, Gone> {
        let room = self.room.clone().acquire_many_owned(self.needs(&jobs)).await;
        self.stand_in_line(jobs, room.map_err(|_| Gone)?).await
    }

    /// The same, unless too many are in line already.
    pub async fn call_now(&self, jobs: Vec<J>) -> Result<Result<Vec<A>, E>, Refused> {
        let room = self.room.clone().try_acquire_many_owned(self.needs(&jobs));
        let answered = self.stand_in_line(jobs, room.map_err(|_| Refused::Full)?).await;
        answered.map_err(|Gone| Refused::Gone)
    }

    /// Whoever brings more than there ever is room for has to have all of it.
    fn needs(&self, jobs: &[J]) -> u32 {
        u32::try_from(jobs.len().min(self.room_max)).unwrap_or(u32::MAX)
    }

    async fn stand_in_line(
        &self,
        jobs: Vec<J>,
        room: OwnedSemaphorePermit,
    ) -> Result<Result<Vec<A>, E>, Gone> {
        if jobs.is_empty() {
            return Ok(Ok(Vec::new()));
        }
        let (answer, answered) = oneshot::channel();
        self.calls.send(Call { jobs, answer, _room: room }).map_err(|_| Gone)?;
        answered.await.map_err(|_| Gone)
    }
}

async fn fly<J, A, E, F>(inbox: Inbox<J, A, E>, batch_max: usize, run: impl Fn(Vec<J>) -> F)
where
    E: Clone,
    F: Future<Output = Result<Vec<A>, E>>,
{
    while let Some(calls) = next(&inbox, batch_max).await {
        let mut jobs = Vec::new();
        let mut waiting = Vec::with_capacity(calls.len());
        for Call { jobs: brought, answer, _room: room } in calls {
            waiting.push((brought.len(), answer, room));
            jobs.extend(brought);
        }
        match run(jobs).await {
            Ok(answers) => {
                let mut answers = answers.into_iter();
                for (count, answer, room) in waiting {
                    drop(room);
                    // A caller that went away wants no answer.
                    let _ = answer.send(Ok(answers.by_ref().take(count).collect()));
                }
            }
            Err(error) => waiting.into_iter().for_each(|(_, answer, room)| {
                drop(room);
                let _ = answer.send(Err(error.clone()));
            }),
        }
    }
}

/// The next batch of calls; none when nobody can call any more.
async fn next<J, A, E>(inbox: &Inbox<J, A, E>, batch_max: usize) -> Option<Vec<Call<J, A, E>>> {
    let mut inbox = inbox.lock().await;
    let is_wanted = |call: &Call<J, A, E>| !call.answer.is_closed();
    let mut first = inbox.recv().await?;
    while !is_wanted(&first) {
        first = inbox.recv().await?;
    }
    let mut count = first.jobs.len();
    let mut calls = vec![first];
    while count < batch_max {
        let Ok(call) = inbox.try_recv() else { break };
        if is_wanted(&call) {
            count += call.jobs.len();
            calls.push(call);
        }
    }
    Some(calls)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const ONE: Options = Options { batch_max: 100, flights: 1 };

    #[tokio::test]
    async fn every_caller_gets_its_own_answers_in_order() {
        let doubled = |jobs: Vec<u32>| async move {
            tokio::task::yield_now().await;
            Ok::<_, ()>(jobs.into_iter().map(|job| job * 2).collect())
        };
        let gather = Gather::start(ONE, doubled);
        let calls = (0..50).map(|n| gather.call(vec![n, n + 100]));
        let mut set = Vec::new();
        for call in calls {
            set.push(call.await);
        }
        for (n, answer) in (0..50).zip(set) {
            assert_eq!(answer, Ok(Ok(vec![n * 2, (n + 100) * 2])));
        }
        assert_eq!(gather.call(Vec::new()).await, Ok(Ok(Vec::new())));
    }

    #[tokio::test]
    async fn what_waits_for_a_batch_goes_together_in_the_next() {
        let batches = Arc::new(AtomicUsize::new(0));
        let gate = Arc::new(tokio::sync::Semaphore::new(0));
        let run = {
            let (batches, gate) = (batches.clone(), gate.clone());
            move |jobs: Vec<u32>| {
                let (batches, gate) = (batches.clone(), gate.clone());
                async move {
                    batches.fetch_add(1, Ordering::Relaxed);
                    gate.acquire().await.map_err(|_| ())?.forget();
                    Ok::<_, ()>(jobs)
                }
            }
        };
        let gather = Arc::new(Gather::start(ONE, run));
        let mut callers = JoinSet::new();
        for n in 0..10 {
            let gather = gather.clone();
            callers.spawn(async move { gather.call(vec![n]).await });
            tokio::task::yield_now().await;
        }
        gate.add_permits(10);
        while let Some(answer) = callers.join_next().await {
            assert!(matches!(answer, Ok(Ok(Ok(_)))));
        }
        assert!(batches.load(Ordering::Relaxed) <= 3, "{batches:?}");
    }

    #[tokio::test]
    async fn a_batch_that_fails_fails_for_everybody_in_it_and_for_nobody_else() {
        let run = |jobs: Vec<u32>| async move {
            if jobs.contains(&13) { Err("unlucky") } else { Ok(jobs) }
        };
        let gather = Gather::start(ONE, run);
        assert_eq!(gather.call(vec![13]).await, Ok(Err("unlucky")));
        assert_eq!(gather.call(vec![1]).await, Ok(Ok(vec![1])));
    }

    type Gathered = Arc<Gather<u32, u32, ()>>;

    /// A server that does nothing until it is told to.
    fn stalled() -> (Arc<Semaphore>, Arc<AtomicUsize>, Gathered) {
        let gate = Arc::new(Semaphore::new(0));
        let done = Arc::new(AtomicUsize::new(0));
        let run = {
            let (gate, done) = (gate.clone(), done.clone());
            move |jobs: Vec<u32>| {
                let (gate, done) = (gate.clone(), done.clone());
                async move {
                    let _turn = gate.acquire().await.map_err(|_| ())?;
                    done.fetch_add(jobs.len(), Ordering::Relaxed);
                    Ok::<_, ()>(jobs)
                }
            }
        };
        let few = Options { batch_max: 10, flights: 1 };
        (gate, done, Arc::new(Gather::start(few, run)))
    }

    #[tokio::test]
    async fn a_full_line_sends_away_who_is_at_a_door_and_has_workers_wait() {
        let (gate, _, gather) = stalled();
        let mut callers = JoinSet::new();
        for n in 0..170 {
            let gather = gather.clone();
            callers.spawn(async move { gather.call_now(vec![n]).await.is_ok() });
        }
        tokio::task::yield_now().await;
        while gather.room.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(gather.call_now(vec![1]).await, Err(Refused::Full));
        let worker = gather.call(vec![1]);
        tokio::pin!(worker);
        assert!(
            std::future::poll_fn(|context| {
                std::task::Poll::Ready(worker.as_mut().poll(context).is_pending())
            })
            .await
        );
        gate.add_permits(1);
        assert_eq!(worker.await, Ok(Ok(vec![1])));
        while let Some(answered) = callers.join_next().await {
            assert!(answered.is_ok_and(|answered| answered));
        }
        assert_eq!(gather.room.available_permits(), 170, "the line is empty again");
    }

    #[tokio::test]
    async fn what_nobody_waits_for_any_more_is_not_begun() {
        let (gate, done, gather) = stalled();
        let mut callers = JoinSet::new();
        for n in 0..100 {
            let gather = gather.clone();
            callers.spawn(async move { gather.call(vec![n]).await });
        }
        while gather.room.available_permits() > 70 {
            tokio::task::yield_now().await;
        }
        callers.shutdown().await;
        gate.add_permits(1);
        assert_eq!(gather.call(vec![7]).await, Ok(Ok(vec![7])));
        assert!(done.load(Ordering::Relaxed) <= 11, "only what was under way, and the last");
    }
}
