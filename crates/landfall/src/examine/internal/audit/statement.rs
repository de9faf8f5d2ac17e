//! A service's own records, read over HTTP: `GET /statement` and `GET /balances`.
//!
//! Not part of the contract that a service must keep; the built-in one has them. A question has no
//! effect, so one that got no answer is asked again for a while: a service may be restarting.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use landfall_core::Clock;
use landfall_ledger::{AccountId, Balance, Entry, Key, Outcome, Refusal, Terms, Verb};
use landfall_rpc::{Header, HttpRequest, HttpTransport, Method, Transport as _, Url};
use serde_json::Value;

use crate::config::ServiceSpec;

/// Lines or accounts in one answer: the most that the built-in service gives.
const PAGE: usize = 1_000;
/// For how long an answer is asked for in vain before the service is called down.
const PATIENCE_MS: u64 = 15_000;
/// Pause before the same question is asked again.
const PAUSE: Duration = Duration::from_millis(100);

/// Why a service's records could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unread {
    /// It has none to read.
    NoStatement {
        name: String,
    },
    NoAnswer {
        name: String,
        url: String,
        why: String,
    },
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unread::NoStatement { name } => write!(f, "{name} has no GET /statement"),
            Unread::NoAnswer { name, url, why } => write!(f, "{name} at {url}: {why}"),
        }
    }
}

/// A service to be read.
pub struct Reader {
    name: String,
    base: Url,
    headers: Vec<Header>,
    timeout: Duration,
    transport: Arc<HttpTransport>,
    clock: Arc<dyn Clock>,
}

impl Reader {
    pub fn new(
        spec: &ServiceSpec,
        transport: Arc<HttpTransport>,
        clock: Arc<dyn Clock>,
    ) -> Result<Reader, Unread> {
        let secret = spec.auth.as_ref();
        let header = secret.map(|secret| Header::new(&spec.auth_header, secret.expose()));
        let mut reader = Reader {
            name: spec.name.clone(),
            base: spec.url.clone(),
            headers: Vec::new(),
            timeout: Duration::from_millis(spec.timeout_ms),
            transport,
            clock,
        };
        match header.transpose() {
            Ok(header) => reader.headers.extend(header),
            Err(error) => return Err(reader.silent(error.to_string())),
        }
        Ok(reader)
    }

    fn silent(&self, why: String) -> Unread {
        let (name, url) = (self.name.clone(), self.base.to_string());
        Unread::NoAnswer { name, url, why }
    }

    /// The newest line: up to here nothing will ever be added.
    pub async fn head(&self) -> Result<u64, Unread> {
        let page = self.ask("/statement?after=0&until=0&limit=1").await?;
        number(&page, "head").ok_or_else(|| self.garbled("head"))
    }

    /// All lines up to `until`.
    pub async fn lines(&self, until: u64) -> Result<Vec<Entry>, Unread> {
        let mut lines: Vec<Entry> = Vec::new();
        loop {
            let after = lines.last().map_or(0, |line| line.seq);
            if after >= until {
                return Ok(lines);
            }
            let path = format!("/statement?after={after}&until={until}&limit={PAGE}");
            let page = self.ask(&path).await?;
            let read = page["operations"].as_array().map(|page| page.iter().map(entry));
            let read: Option<Vec<Entry>> = read.and_then(Iterator::collect);
            match read.ok_or_else(|| self.garbled("operations"))? {
                // What is missing is told by whoever adds the lines up.
                none if none.is_empty() => return Ok(lines),
                some => lines.extend(some),
            }
        }
    }

    /// All accounts as they are now.
    pub async fn balances(&self) -> Result<Vec<Balance>, Unread> {
        let mut balances: Vec<Balance> = Vec::new();
        loop {
            let after = balances.last().map_or(0, |balance| balance.number);
            let page = self.ask(&format!("/balances?after={after}&limit={PAGE}")).await?;
            let read = page["balances"].as_array().map(|page| page.iter().map(balance));
            let read: Option<Vec<Balance>> = read.and_then(Iterator::collect);
            match read.ok_or_else(|| self.garbled("balances"))? {
                none if none.is_empty() => return Ok(balances),
                some => balances.extend(some),
            }
        }
    }

    fn garbled(&self, what: &str) -> Unread {
        self.silent(format!("{what} cannot be read; is this the built-in service?"))
    }

    /// Asks until there is an answer, for as long as a restart may take.
    async fn ask(&self, path: &str) -> Result<Value, Unread> {
        let begun_ms = self.clock.monotonic_ms();
        loop {
            let why = match self.ask_once(path).await {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => return Err(Unread::NoStatement { name: self.name.clone() }),
                Err(why) => why,
            };
            if self.clock.monotonic_ms().saturating_sub(begun_ms) >= PATIENCE_MS {
                return Err(self.silent(why));
            }
            self.clock.sleep(PAUSE).await;
        }
    }

    /// None if the service has no such route.
    async fn ask_once(&self, path: &str) -> Result<Option<Value>, String> {
        let url = self.base.join(path).map_err(|error| error.to_string())?;
        let (method, headers) = (Method::Get, self.headers.clone());
        let request = HttpRequest { method, url, headers, body: Default::default() };
        let answer = self.transport.call(request, self.timeout).await;
        let answer = answer.map_err(|error| error.to_string())?;
        match answer.status {
            200 => {
                serde_json::from_slice(&answer.body).map(Some).map_err(|error| error.to_string())
            }
            404 | 405 => Ok(None),
            status => Err(format!("HTTP {status}")),
        }
    }
}

fn number(of: &Value, name: &str) -> Option<u64> {
    of[name].as_u64()
}

fn account(of: &Value) -> Option<AccountId> {
    let asset_id = u32::try_from(number(of, "asset_id")?).ok()?;
    Some(AccountId { user_id: number(of, "user_id")?, asset_id })
}

fn entry(line: &Value) -> Option<Entry> {
    let key = match (line["req_id"].as_str(), line["ref"].as_str()) {
        (Some(req_id), None) => Key::Request(req_id.parse().ok()?),
        (None, Some(reference)) => Key::Reference(reference.to_owned()),
        _ => return None,
    };
    let outcome = match line["outcome"].as_str()? {
        "done" => Outcome::Done,
        "refused" => Outcome::Refused(Refusal(line["error"].as_str()?.to_owned().into())),
        _ => return None,
    };
    let amount = NonZeroU64::new(number(line, "amount")?)?;
    Some(Entry {
        seq: number(line, "seq")?,
        key,
        verb: Verb::named(line["operation"].as_str()?)?,
        terms: Terms { account: account(line)?, amount },
        outcome,
        at_ms: number(line, "at_ms")?,
        available: number(line, "available")?,
        frozen: number(line, "frozen")?,
    })
}

fn balance(of: &Value) -> Option<Balance> {
    Some(Balance {
        number: number(of, "number")?,
        account: account(of)?,
        available: number(of, "available")?,
        frozen: number(of, "frozen")?,
        blocked: of["blocked"].as_bool()?,
        seq: number(of, "seq")?,
    })
}

#[cfg(test)]
mod tests {
    use landfall_ledger::ReqId;
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_are_read_as_the_service_writes_them() {
        let line = json!({"seq": 2, "req_id": "00000000-0000-0000-0000-000000000007",
            "operation": "withdraw", "outcome": "refused", "error": "no", "user_id": 4001,
            "asset_id": 1, "amount": 30, "at_ms": 5, "available": 70, "frozen": 30});
        let read = entry(&line).expect("a line");
        assert_eq!((read.seq, read.key, read.verb), (2, Key::Request(ReqId(7)), Verb::Withdraw));
        assert_eq!(read.outcome, Outcome::Refused(Refusal("no".into())));
        assert_eq!((read.terms.amount.get(), read.available, read.frozen), (30, 70, 30));
        let mut funded = line.clone();
        funded["ref"] = json!("opening");
        assert_eq!(entry(&funded), None, "one key, not two");
        for field in ["seq", "operation", "outcome", "amount", "user_id", "available"] {
            let mut less = line.clone();
            less.as_object_mut().expect("an object").remove(field);
            assert_eq!(entry(&less), None, "{field}");
        }
    }
}
