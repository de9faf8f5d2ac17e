//! Work for a book that will be killed, and the look at what is left of it.
//!
//! The process that runs [`work`] says every answer it was given; whoever killed it hands what was
//! said to [`check`], which wants all of it back, repeats it, and wants nothing done twice.
//! [`survive`] does so again and again, on one book.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{AT_MS, World, commit, deposit, fund, rollback, withdraw};
use crate::book::Book;
use crate::words::{AccountId, Answer, Operation, Outcome, ReqId, Verb};

/// Workers at once, so that operations of several callers meet in a commit.
const WORKERS: u64 = 8;
/// Accounts they share.
const USERS: u64 = 10;
/// Most answers before an interruption.
const LINES_MOST: usize = 400;
/// What each account is given at first.
const FUNDED: u64 = 100;

/// An answer that was given, as one line of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    pub req_id: ReqId,
    pub verb: Verb,
    pub user_id: u64,
    pub amount: u64,
    pub done: bool,
}

impl Said {
    fn operation(&self) -> Operation {
        let (id, account) = (self.req_id.0, account(self.user_id));
        match self.verb {
            Verb::Fund => fund(&self.user_id.to_string(), account, self.amount),
            Verb::Withdraw => withdraw(id, account, self.amount),
            Verb::Deposit => deposit(id, account, self.amount),
            Verb::Commit => commit(id),
            Verb::Rollback => rollback(id),
        }
    }
}

fn account(user_id: u64) -> AccountId {
    AccountId { user_id, asset_id: 1 }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Said { req_id, verb, user_id, amount, done } = self;
        write!(f, "{req_id} {verb} {user_id} {amount} {done}")
    }
}

impl FromStr for Said {
    type Err = String;

    fn from_str(line: &str) -> Result<Said, String> {
        let unknown = || format!("not a line of ours: {line:?}");
        let number = |text: &str| text.parse::<u64>().map_err(|_| unknown());
        let words: Vec<&str> = line.split(' ').collect();
        let [req_id, verb, user_id, amount, done] = words[..] else { return Err(unknown()) };
        Ok(Said {
            req_id: req_id.parse().map_err(|_| unknown())?,
            verb: Verb::named(verb).ok_or_else(unknown)?,
            user_id: number(user_id)?,
            amount: number(amount)?,
            done: done == "true",
        })
    }
}

/// Works for ever on a book that may hold what an earlier process left, and says every answer.
/// `run` tells this process's ids from the others'.
pub async fn work(book: Arc<dyn Book>, run: u64, say: impl Fn(Said) + Send + Sync + 'static) {
    let world = Arc::new(World { kind: book.contract().kind, book });
    for user_id in 0..USERS {
        world.done(fund(&user_id.to_string(), account(user_id), FUNDED)).await;
    }
    let say = Arc::new(say);
    let workers = (0..WORKERS).map(|number| {
        let (world, say) = (world.clone(), say.clone());
        tokio::spawn(async move {
            let mut random = StdRng::seed_from_u64(run * WORKERS + number);
            for round in 0_u64.. {
                let id = u128::from(run) << 96 | u128::from(number) << 64 | u128::from(round);
                transfer(&world, ReqId(id), &mut random, say.as_ref()).await;
            }
        })
    });
    for ended in futures::future::join_all(workers).await {
        ended.expect("no worker gives up");
    }
}

/// A withdrawal and what becomes of it; sometimes nothing does.
async fn transfer(
    world: &World,
    req_id: ReqId,
    random: &mut StdRng,
    say: &(impl Fn(Said) + Send + Sync),
) {
    let user_id = random.random_range(0..USERS);
    let amount = random.random_range(1..FUNDED);
    let end = [Verb::Commit, Verb::Rollback][random.random_range(0..2)];
    let verbs = match random.random_range(0..4) {
        0 => vec![Verb::Deposit],
        1 => vec![Verb::Withdraw],
        _ => vec![Verb::Withdraw, end],
    };
    for verb in verbs {
        let mut said = Said { req_id, verb, user_id, amount, done: false };
        said.done = match world.ask(said.operation()).await {
            Answer::Recorded(outcome) => outcome == Outcome::Done,
            other => panic!("{said}: {other:?}"),
        };
        say(said);
    }
}

/// Looks at what is left after each of so many interruptions. `interrupt` ends a worker of that run
/// after it has said so many lines, and returns all that it said.
pub async fn survive(
    rounds: u64,
    interrupt: impl Fn(u64, usize) -> Vec<Said>,
    open: impl AsyncFn() -> Arc<dyn Book>,
) {
    let mut said = Vec::new();
    for run in 0..rounds {
        said.extend(interrupt(run, 1 + (run as usize * 97) % LINES_MOST));
        let book = open().await;
        // Somebody killed may have sent a commit that is still under way: who writes next waits.
        write(book.as_ref()).await;
        check(book, &said).await;
    }
}

/// Writes what no worker does.
pub async fn write(book: &dyn Book) {
    static WRITES: AtomicU64 = AtomicU64::new(0);
    let id = u128::MAX - u128::from(WRITES.fetch_add(1, Ordering::Relaxed));
    let told = book.apply(vec![deposit(id, account(0), 1)], AT_MS).await;
    assert_eq!(told, Ok(vec![Answer::DONE]));
}

/// Panics with what is missing, half done, or done twice.
pub async fn check(book: Arc<dyn Book>, said: &[Said]) {
    let world = World { kind: book.contract().kind, book };
    let lines = world.adds_up().await;
    for line in said {
        let told = world.book.query(line.req_id, line.verb).await.expect("an answer");
        let done = told.map(|outcome| outcome == Outcome::Done);
        assert_eq!(done, Some(line.done), "said, and then forgotten: {line}");
    }
    let again = said.iter().map(Said::operation).collect();
    let answers = world.book.apply(again, AT_MS).await.expect("answers");
    for (answer, line) in answers.iter().zip(said) {
        let done = *answer == Answer::DONE;
        assert_eq!(done, line.done, "answered otherwise when it was repeated: {line}");
    }
    assert_eq!(world.adds_up().await, lines, "what was repeated acted again");
}
