//! Conservation of funds, as a pure function of what was read: invariant 9.
//!
//! Per request: what was withdrawn, less what was deposited and rolled back, is nothing or the
//! amount, never less than nothing, and nothing once the transfer is final. Per service: balances
//! change by recorded operations alone.
//! **The cut:** final transfers were read first; then every service's head, which bounds the
//! deposits that count; then every head once more, which bounds all else. A deposit is asked for
//! after its withdrawal was answered, so whatever counts as deposited counts as withdrawn too,
//! and whatever a final transfer did is in the cut.
//! Not here: reading services (`statement`), the sums of one statement (`landfall_ledger::audit`).

use std::collections::{BTreeMap, BTreeSet};

use landfall_ledger::audit::Tally;
use landfall_ledger::{Balance, Entry, Key, Kind, Outcome, ReqId, Terms, Verb};

/// How a transfer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Committed,
    RolledBack,
    Failed,
}

/// A transfer, as the store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub source: String,
    pub target: String,
    pub terms: Terms,
    /// None while it is not final, or was not when the cut was made.
    pub end: Option<End>,
}

/// One service's own records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Records {
    pub name: String,
    pub kind: Kind,
    /// Deposits up to this line count.
    pub deposits_until: u64,
    /// Everything else does up to this one.
    pub until: u64,
    /// All lines from the first to `until`.
    pub lines: Vec<Entry>,
    /// Every account, as it was at `until` or later.
    pub balances: Vec<Balance>,
}

/// Everything that was read.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    pub transfers: BTreeMap<ReqId, Asked>,
    pub services: Vec<Records>,
}

/// One thing that does not add up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// A short name for programs.
    pub kind: &'static str,
    pub message: String,
    pub req_id: Option<ReqId>,
    pub service: Option<String>,
}

/// What the comparison came to.
#[derive(Debug, Default)]
pub struct Verdict {
    pub differences: Vec<Difference>,
    /// Requests whose amount has left the source and is neither at the target nor back.
    pub in_flight: u64,
    /// Transfers between services of which not both could be read.
    pub unproven: u64,
}

impl Verdict {
    fn differ(&mut self, kind: &'static str, req_id: ReqId, message: String) {
        let message = format!("{req_id}: {message}");
        let difference = Difference { kind, message, req_id: Some(req_id), service: None };
        self.differences.push(difference);
    }

    fn differ_at(&mut self, kind: &'static str, service: &str, message: String) {
        let message = format!("{service}: {message}");
        let service = Some(service.to_owned());
        self.differences.push(Difference { kind, message, req_id: None, service });
    }
}

/// What the services did for one request.
#[derive(Default)]
struct Done<'a> {
    withdrawn: Vec<(&'a str, Terms)>,
    deposited: Vec<(&'a str, Terms)>,
    committed: Vec<(&'a str, Terms)>,
    rolled_back: Vec<(&'a str, Terms)>,
}

impl Done<'_> {
    /// What has left and not come to rest.
    fn left(&self) -> i128 {
        let sum = |done: &[(&str, Terms)]| {
            done.iter().map(|(_, terms)| i128::from(terms.amount.get())).sum::<i128>()
        };
        sum(&self.withdrawn) - sum(&self.deposited) - sum(&self.rolled_back)
    }
}

/// Whether a line is in the cut.
fn counts(records: &Records, line: &Entry) -> bool {
    line.seq <= if line.verb == Verb::Deposit { records.deposits_until } else { records.until }
}

/// The requests that any counted line names, refused or not.
pub fn requests(services: &[Records]) -> BTreeSet<ReqId> {
    let lines = services
        .iter()
        .flat_map(|records| records.lines.iter().filter(move |line| counts(records, line)));
    lines.filter_map(|line| request(&line.key)).collect()
}

fn request(key: &Key) -> Option<ReqId> {
    match key {
        Key::Request(req_id) => Some(*req_id),
        Key::Reference(_) => None,
    }
}

pub fn compare(facts: &Facts) -> Verdict {
    let mut verdict = Verdict::default();
    facts.services.iter().for_each(|records| check_service(records, &mut verdict));
    let done = done(&facts.services);
    for req_id in requests(&facts.services) {
        if !facts.transfers.contains_key(&req_id) {
            let where_ = services_of(&facts.services, req_id).join(" and ");
            let message = format!("no transfer of ours asked for it; {where_} has it");
            verdict.differ("foreign_request", req_id, message);
        }
    }
    let nothing = Done::default();
    for (req_id, asked) in &facts.transfers {
        let service = |name: &str| facts.services.iter().find(|one| one.name == name);
        let (Some(source), Some(_)) = (service(&asked.source), service(&asked.target)) else {
            verdict.unproven += 1;
            continue;
        };
        let done = done.get(req_id).unwrap_or(&nothing);
        check_request(*req_id, asked, done, &mut verdict);
        check_end(*req_id, asked, done, source.kind, &mut verdict);
    }
    verdict
}

fn done(services: &[Records]) -> BTreeMap<ReqId, Done<'_>> {
    let mut all: BTreeMap<ReqId, Done<'_>> = BTreeMap::new();
    for records in services {
        let effective = |line: &&Entry| line.outcome == Outcome::Done && counts(records, line);
        for line in records.lines.iter().filter(effective) {
            let Some(req_id) = request(&line.key) else { continue };
            let done = all.entry(req_id).or_default();
            let list = match line.verb {
                Verb::Withdraw => &mut done.withdrawn,
                Verb::Deposit => &mut done.deposited,
                Verb::Commit => &mut done.committed,
                Verb::Rollback => &mut done.rolled_back,
                Verb::Fund => continue,
            };
            list.push((&records.name, line.terms));
        }
    }
    all
}

fn services_of(services: &[Records], req_id: ReqId) -> Vec<&str> {
    let has =
        |records: &&Records| records.lines.iter().any(|line| request(&line.key) == Some(req_id));
    services.iter().filter(has).map(|records| records.name.as_str()).collect()
}

/// Balances change by recorded operations alone.
fn check_service(records: &Records, verdict: &mut Verdict) {
    let mut tally = Tally::new(records.kind);
    if let Err(wrong) = records.lines.iter().try_for_each(|line| tally.add(line)) {
        verdict.differ_at("does_not_add_up", &records.name, wrong.to_string());
        return;
    }
    if tally.head() != records.until {
        let message = format!("lines end at {}, not at {}", tally.head(), records.until);
        verdict.differ_at("does_not_add_up", &records.name, message);
    }
    let held: BTreeMap<_, _> = records.balances.iter().map(|one| (one.account, one)).collect();
    let unchanged = |balance: &&Balance| balance.seq <= records.until;
    let accounts: BTreeSet<_> = tally.sums().keys().chain(held.keys()).copied().collect();
    for account in accounts {
        let expected = tally.sums().get(&account).copied().unwrap_or_default();
        let found = match held.get(&account).copied() {
            // Changed since: the lines that did it are not in the cut.
            Some(balance) if !unchanged(&balance) => continue,
            Some(balance) => (i128::from(balance.available), i128::from(balance.frozen)),
            None => (0, 0),
        };
        if found != expected {
            let message = format!(
                "user {} holds {found:?} (available, frozen) of asset {}, the statement adds up \
                 to {expected:?}",
                account.user_id, account.asset_id
            );
            verdict.differ_at("balance", &records.name, message);
        }
    }
}

/// What must hold at every moment.
fn check_request(req_id: ReqId, asked: &Asked, done: &Done<'_>, verdict: &mut Verdict) {
    let legs = [
        ("withdrawn", &done.withdrawn, &asked.source),
        ("deposited", &done.deposited, &asked.target),
        ("committed", &done.committed, &asked.source),
        ("rolled back", &done.rolled_back, &asked.source),
    ];
    for (what, list, service) in legs {
        for (found, terms) in list {
            if found != service || *terms != asked.terms {
                let message = format!(
                    "{what} at {found} was {}, asked was {} at {service}",
                    shown(*terms),
                    shown(asked.terms)
                );
                verdict.differ("moved_otherwise", req_id, message);
            }
        }
        if list.len() > 1 {
            verdict.differ("done_twice", req_id, format!("{what} {} times", list.len()));
        }
    }
    if !done.committed.is_empty() && !done.rolled_back.is_empty() {
        verdict.differ("done_twice", req_id, "committed and rolled back".to_owned());
    }
    let (left, amount) = (done.left(), i128::from(asked.terms.amount.get()));
    if left < 0 {
        let message = format!("{} was created: more was given than was taken", -left);
        verdict.differ("created", req_id, message);
    } else if left != 0 && left != amount {
        let message = format!("{left} is under way, of {amount}");
        verdict.differ("wrong_amount", req_id, message);
    } else if left == amount && asked.end.is_none() {
        verdict.in_flight += 1;
    }
}

/// What must hold of a final transfer.
fn check_end(req_id: ReqId, asked: &Asked, done: &Done<'_>, source: Kind, verdict: &mut Verdict) {
    let Some(end) = asked.end else { return };
    let mut differ = |kind, message: &str| verdict.differ(kind, req_id, message.to_owned());
    if done.left() > 0 {
        differ("lost", "is final, and its funds are neither at the target nor back");
    }
    match end {
        End::Committed if done.deposited.is_empty() => {
            differ("never_deposited", "is committed and was never deposited");
        }
        End::Committed if source == Kind::Freeze && done.committed.is_empty() => {
            differ("not_committed", "is committed, and its funds are still frozen at the source");
        }
        End::RolledBack if !done.deposited.is_empty() => {
            differ("rolled_back_but_deposited", "is rolled back and was deposited");
        }
        End::RolledBack if done.rolled_back.is_empty() => {
            differ("not_restored", "is rolled back, and the source gave nothing back");
        }
        End::Failed if !done.withdrawn.is_empty() => {
            differ("failed_but_withdrawn", "has failed and was withdrawn");
        }
        End::Failed if !done.deposited.is_empty() => {
            differ("failed_but_deposited", "has failed and was deposited");
        }
        _ => {}
    }
}

fn shown(terms: Terms) -> String {
    let Terms { account, amount } = terms;
    format!("{amount} of asset {} of user {}", account.asset_id, account.user_id)
}

#[cfg(test)]
mod tests;
