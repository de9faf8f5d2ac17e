//! One function per route: read, ask the book, answer.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::Response;
use axum::{Extension, Json};
use serde_json::{Value, json};

use super::answer::{self, Wrong, answered};
use super::body::{self, Fields};
use super::{Declined, Service};
use crate::book::{BookError, Span};
use crate::words::{AccountId, Kind, Operation, ReqId, Verb};

/// Lines or accounts in one answer, unless asked for fewer or more.
const PAGE_DEFAULT: u64 = 100;
/// Most lines or accounts in one answer.
const PAGE_MAX: u64 = 1_000;

type Answered = Result<Response, Wrong>;
type Told = Result<Json<Value>, Wrong>;

async fn ask(service: &Service, operation: Operation) -> Answered {
    let verb = operation.verb();
    let answers = service.book.apply(vec![operation], service.clock.now_ms()).await?;
    let missing = || Wrong::Book(BookError::Unavailable("the book gave no answer".into()));
    Ok(answered(verb, answers.into_iter().next().ok_or_else(missing)?))
}

pub(super) async fn withdraw(State(service): State<Service>, body: Body) -> Answered {
    let mut fields = Fields::read(body).await?;
    let (req_id, terms) = (fields.req_id()?, fields.terms()?);
    fields.end()?;
    ask(&service, Operation::Withdraw { req_id, terms }).await
}

pub(super) async fn deposit(
    State(service): State<Service>,
    declined: Option<Extension<Declined>>,
    body: Body,
) -> Answered {
    let mut fields = Fields::read(body).await?;
    let (req_id, terms) = (fields.req_id()?, fields.terms()?);
    fields.end()?;
    let declined = declined.is_some();
    ask(&service, Operation::Deposit { req_id, terms, declined }).await
}

pub(super) async fn commit(State(service): State<Service>, body: Body) -> Answered {
    let req_id = only_id(body).await?;
    ask(&service, Operation::Commit { req_id }).await
}

pub(super) async fn rollback(State(service): State<Service>, body: Body) -> Answered {
    let req_id = only_id(body).await?;
    ask(&service, Operation::Rollback { req_id }).await
}

async fn only_id(body: Body) -> Result<ReqId, Wrong> {
    let mut fields = Fields::read(body).await?;
    let req_id = fields.req_id()?;
    fields.end()?;
    Ok(req_id)
}

pub(super) async fn fund(State(service): State<Service>, body: Body) -> Answered {
    let mut fields = Fields::read(body).await?;
    let (reference, terms) = (fields.reference()?, fields.terms()?);
    fields.end()?;
    ask(&service, Operation::Fund { reference, terms }).await
}

pub(super) async fn operation(
    State(service): State<Service>,
    Path((req_id, verb)): Path<(String, String)>,
) -> Told {
    let req_id = req_id.parse().map_err(|error| Wrong::bad("req_id", error))?;
    let complaint = "must be withdraw, deposit, commit or rollback";
    let verb = Verb::named(&verb).filter(|verb| *verb != Verb::Fund);
    let verb = verb.ok_or_else(|| Wrong::bad("operation", complaint))?;
    let outcome = service.book.query(req_id, verb).await?;
    Ok(Json(answer::status(outcome.as_ref())))
}

pub(super) async fn contract(State(service): State<Service>) -> Json<Value> {
    let contract = service.book.contract();
    Json(json!({
        "name": contract.name,
        "freezes": contract.kind == Kind::Freeze,
        "dedupe_window_s": null,
    }))
}

pub(super) async fn user(State(service): State<Service>, Path(user): Path<String>) -> Told {
    let accounts = service.book.accounts(body::user_id(&user)?).await?;
    Ok(Json(json!({ "known": !accounts.is_empty() })))
}

pub(super) async fn accounts(State(service): State<Service>, Path(user): Path<String>) -> Told {
    let user_id = body::user_id(&user)?;
    let accounts = service.book.accounts(user_id).await?;
    let accounts: Vec<Value> = accounts.iter().map(answer::balance).collect();
    Ok(Json(json!({ "user_id": user_id, "accounts": accounts })))
}

pub(super) async fn block(
    State(service): State<Service>,
    Path(path): Path<(String, String)>,
    sent: Body,
) -> Told {
    let account = body::account(&path)?;
    let mut fields = Fields::read(sent).await?;
    let blocked = fields.flag("blocked")?;
    fields.end()?;
    match service.book.block(account, blocked).await? {
        true => Ok(Json(json!({ "success": true }))),
        false => Err(Wrong::Missing("no such account")),
    }
}

pub(super) async fn account_statement(
    State(service): State<Service>,
    Path(path): Path<(String, String)>,
    uri: Uri,
) -> Told {
    let account = body::account(&path)?;
    lines(&service, Some(account), body::numbers(&uri, ["after", "until", "limit"])?).await
}

pub(super) async fn statement(State(service): State<Service>, uri: Uri) -> Told {
    lines(&service, None, body::numbers(&uri, ["after", "until", "limit"])?).await
}

async fn lines(
    service: &Service,
    account: Option<AccountId>,
    [after, until, limit]: [Option<u64>; 3],
) -> Told {
    let (after, until) = (after.unwrap_or(0), until.unwrap_or(u64::MAX));
    let span = Span { account, after, until, limit: page(limit)? };
    let statement = service.book.statement(span).await?;
    let operations: Vec<Value> = statement.entries.iter().map(answer::entry).collect();
    Ok(Json(json!({ "operations": operations, "head": statement.head })))
}

pub(super) async fn balances(State(service): State<Service>, uri: Uri) -> Told {
    let [after, limit] = body::numbers(&uri, ["after", "limit"])?;
    let page = service.book.balances(after.unwrap_or(0), page(limit)?).await?;
    let balances: Vec<Value> = page.balances.iter().map(answer::balance).collect();
    Ok(Json(json!({ "balances": balances, "head": page.head })))
}

fn page(limit: Option<u64>) -> Result<usize, Wrong> {
    let limit = limit.unwrap_or(PAGE_DEFAULT);
    match (1..=PAGE_MAX).contains(&limit) {
        true => Ok(limit as usize),
        false => Err(Wrong::bad("limit", format!("must be between 1 and {PAGE_MAX}"))),
    }
}

pub(super) async fn health(State(service): State<Service>) -> Told {
    let head = service.book.statement(Span::after(u64::MAX, 1)).await?.head;
    Ok(Json(json!({ "status": "ok", "name": service.book.contract().name, "head": head })))
}

pub(super) async fn nowhere() -> Wrong {
    Wrong::Missing("no such route")
}

pub(super) async fn no_such_method() -> Wrong {
    Wrong::Method
}
