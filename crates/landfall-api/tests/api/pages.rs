//! What a browser sees, and that the description is true.

use std::collections::BTreeSet;

use landfall_api::{ApiKey, Auth, Scope};
use landfall_core::Event;
use regex::Regex;
use serde_json::{Value, json};

use crate::world::{ALICE, TO_COMPLETED, World, request};

async fn description(world: &World) -> Value {
    let answer = world.get("/openapi.json").await;
    assert_eq!(answer.header("content-type"), Some("application/json"));
    answer.json()
}

/// Every operation of the description: path, method and what it says.
fn operations(api: &Value) -> Vec<(&str, &str, &Value)> {
    let paths = api["paths"].as_object().unwrap();
    let of = |(path, item): (_, _)| {
        let item: &Value = item;
        let path: &String = path;
        item.as_object().unwrap().iter().map(move |(method, said)| (&**path, &**method, said))
    };
    paths.iter().flat_map(of).collect()
}

fn follow<'a>(api: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(path) => api.pointer(path.strip_prefix('#').unwrap()).expect(path),
        None => schema,
    }
}

/// Whether `value` has the shape that `schema` says: types, patterns, enums, required and known
/// fields.
fn check_shape(api: &Value, schema: &Value, value: &Value, at: &str) {
    let schema = follow(api, schema);
    let choices = schema["anyOf"].as_array().or(schema["oneOf"].as_array());
    if let Some(choices) = choices.filter(|_| value.is_object()) {
        let fits = |choice: &&Value| {
            let known = follow(api, choice)["properties"].as_object();
            let is_known = |name: &String| known.is_some_and(|known| known.contains_key(name));
            value.as_object().unwrap().keys().all(is_known)
        };
        return check_shape(api, choices.iter().find(fits).expect(at), value, at);
    }
    if let Some(choices) = schema["enum"].as_array() {
        assert!(choices.contains(value), "{at}: {value}");
    }
    if let (Some(text), Some(pattern)) = (value.as_str(), schema["pattern"].as_str()) {
        assert!(Regex::new(pattern).unwrap().is_match(text), "{at}: {value} is not {pattern}");
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let taken = |name: &Value| name == kind || (name == "number" && kind == "integer");
    match &schema["type"] {
        Value::Array(kinds) => assert!(kinds.iter().any(taken), "{at}: {value}"),
        Value::Null => (),
        name => assert!(taken(name), "{at}: {value} is no {name}"),
    }
    for item in value.as_array().into_iter().flatten() {
        check_shape(api, &schema["items"], item, &format!("{at}[]"));
    }
    let (Some(fields), Some(known)) = (value.as_object(), schema["properties"].as_object()) else {
        return;
    };
    for name in schema["required"].as_array().into_iter().flatten() {
        assert!(fields.contains_key(name.as_str().unwrap()), "{at}: {name} is missing");
    }
    for (name, field) in fields {
        let said = known.get(name).unwrap_or_else(|| panic!("{at}.{name} is not described"));
        check_shape(api, said, field, &format!("{at}.{name}"));
    }
}

#[tokio::test]
async fn the_description_names_every_route_and_no_other() {
    let world = World::new();
    let api = description(&world).await;
    let described: BTreeSet<(&str, &str)> =
        operations(&api).into_iter().map(|(path, method, _)| (path, method)).collect();
    let served = [
        ("/", "get"),
        ("/api/v1/relay/direct", "post"),
        ("/api/v1/relay/gasless", "post"),
        ("/api/v1/relay/status/{transactionId}", "get"),
        ("/api/v1/relay/transactions", "get"),
        ("/api/v1/transfer", "post"),
        ("/api/v1/transfer/{req_id}", "get"),
        ("/api/v1/transfers", "get"),
        ("/dead", "get"),
        ("/dead/{id}", "get"),
        ("/dead/{id}/replay", "post"),
        ("/docs", "get"),
        ("/health", "get"),
        ("/live", "get"),
        ("/metrics", "get"),
        ("/openapi.json", "get"),
        ("/ready", "get"),
        ("/status/{request_id}", "get"),
        ("/transfer", "post"),
        ("/transfer/{key}", "get"),
        ("/transfers", "get"),
        ("/transfers", "post"),
        ("/withdraw", "post"),
    ];
    assert_eq!(described, BTreeSet::from(served));
    let headers: [(&str, &str); 0] = [];
    for (path, method) in served {
        let sent = request(&method.to_uppercase(), path, &headers, "");
        assert_ne!(world.send(sent).await.status, 405, "{method} {path}");
    }
    assert_eq!(api["openapi"], "3.1.0");
    assert_eq!(api["info"]["version"], "1.2.3");
}

#[tokio::test]
async fn every_reference_leads_somewhere_and_every_example_fits_its_schema() {
    fn visit(api: &Value, value: &Value) {
        follow(api, value);
        let (fields, items) = (value.as_object(), value.as_array());
        for inner in fields.into_iter().flat_map(|fields| fields.values()) {
            visit(api, inner);
        }
        for inner in items.into_iter().flatten() {
            visit(api, inner);
        }
        if let Some(example) = value.get("example").filter(|_| value.get("schema").is_some()) {
            check_shape(api, &value["schema"], example, "example");
        }
    }
    let api = description(&World::new()).await;
    visit(&api, &api);
}

#[tokio::test(start_paused = true)]
async fn real_answers_have_the_described_shape() {
    let world = World::new();
    let api = description(&world).await;
    let check = |path: &str, method: &str, status: &str, answer: &Value| {
        let said = follow(&api, &api["paths"][path][method]["responses"][status]);
        let schema = &said["content"]["application/json"]["schema"];
        assert!(schema.is_object(), "{method} {path} {status}");
        check_shape(&api, schema, answer, &format!("{method} {path} {status}"));
    };
    let pay = async || world.pay("k", ALICE).await.json();
    check("/transfer", "post", "201", &pay().await);
    check("/transfer", "post", "200", &pay().await);
    world.advance("k", &TO_COMPLETED, |step| step);
    check("/transfer", "post", "200", &pay().await);
    check(
        "/transfer",
        "post",
        "409",
        &world.pay("k", r#"{"receiver_id": "bob.near", "amount": "1"}"#).await.json(),
    );
    check("/transfer/{key}", "get", "200", &world.get("/transfer/k").await.json());
    check("/transfer/{key}", "get", "404", &world.get("/transfer/x").await.json());
    let order = r#"{"from":"funding","to":"trading","user_id":1,"asset":"BTC","amount":"1"}"#;
    let json = [("content-type", "application/json"), ("idempotency-key", "move")];
    let moved = async || world.send(request("POST", "/api/v1/transfer", &json, order)).await.json();
    let pending = moved().await;
    check("/api/v1/transfer", "post", "202", &pending);
    let req_id = pending["req_id"].as_str().unwrap();
    let refused = [Event::SourceCall, Event::Retry, Event::SourceFail];
    world.advance_order(req_id, &refused, false);
    check("/api/v1/transfer", "post", "200", &moved().await);
    let path = format!("/api/v1/transfer/{req_id}");
    check("/api/v1/transfer/{req_id}", "get", "200", &world.get(&path).await.json());
    calls_have_the_described_shape(&world, &check).await;
    withdraws_have_the_described_shape(&world, &check).await;
    check("/transfers", "get", "200", &world.get("/transfers").await.json());
    let orders = world.get("/api/v1/transfers").await.json();
    assert_eq!(orders["transfers"][0]["idempotency_key"], "move");
    check("/api/v1/transfers", "get", "200", &orders);
    dead_letters_have_the_described_shape(&world, &check).await;
    check("/health", "get", "200", &world.get("/health").await.json());
    check("/live", "get", "200", &world.get("/live").await.json());
    check("/ready", "get", "200", &world.get("/ready").await.json());
    let many = json!([
        {"idempotency_key": "k", "receiver_id": "alice.near", "amount": "1"},
        {"idempotency_key": "l", "receiver_id": "alice.near", "amount": "1"},
        {"idempotency_key": "k", "receiver_id": "alice.near", "amount": "2"},
        {},
    ]);
    let headers = [("content-type", "application/json")];
    let answer = world.send(request("POST", "/transfers", &headers, many.to_string())).await;
    check("/transfers", "post", "200", &answer.json());
}

async fn dead_letters_have_the_described_shape(
    world: &World,
    check: &impl Fn(&str, &str, &str, &Value),
) {
    world.pay_alice("dead").await;
    world.advance("dead", &[Event::Refused], |step| step);
    let page = world.get("/dead?rail=near").await.json();
    check("/dead", "get", "200", &page);
    let id = page["transfers"][0]["id"].as_str().unwrap();
    check("/dead/{id}", "get", "200", &world.get(&format!("/dead/{id}")).await.json());
    let headers = [("content-type", "application/json")];
    let path = format!("/dead/{id}/replay");
    let replay = async || {
        let wish = r#"{"reason": "the account is open again"}"#;
        world.send(request("POST", &path, &headers, wish)).await.json()
    };
    check("/dead/{id}/replay", "post", "200", &replay().await);
    check("/dead/{id}/replay", "post", "409", &replay().await);
}

async fn withdraws_have_the_described_shape(
    world: &World,
    check: &impl Fn(&str, &str, &str, &Value),
) {
    use crate::withdraws::{body, id_of, post, status_path};
    let queued = post(world, &[], &body("aa", 7)).await;
    check("/withdraw", "post", "202", &queued.json());
    let path = status_path(&id_of(&queued));
    check("/status/{request_id}", "get", "200", &world.get(&path).await.json());
    check("/withdraw", "post", "409", &post(world, &[], &body("aa", 8)).await.json());
    world.advance(&id_of(&queued), &[Event::AttemptStored, Event::Landed], |step| step);
    check("/withdraw", "post", "200", &post(world, &[], &body("aa", 7)).await.json());
    check("/status/{request_id}", "get", "200", &world.get(&path).await.json());
    let nobody = status_path("550e8400-e29b-41d4-a716-446655440000");
    check("/status/{request_id}", "get", "404", &world.get(&nobody).await.json());
}

async fn calls_have_the_described_shape(world: &World, check: &impl Fn(&str, &str, &str, &Value)) {
    use crate::calls::{DIRECT, post, signed, status_path};
    let direct = async || post(world, "direct", &[("idempotency-key", "c")], DIRECT).await.json();
    let pending = direct().await;
    check("/api/v1/relay/direct", "post", "202", &pending);
    let id = pending["transactionId"].as_str().unwrap();
    let status = async || world.get(&status_path(id)).await.json();
    check("/api/v1/relay/status/{transactionId}", "get", "200", &status().await);
    let landed = [Event::AttemptStored, Event::Included, Event::Landed];
    world.advance(id, &landed, |step| step);
    check("/api/v1/relay/direct", "post", "200", &direct().await);
    check("/api/v1/relay/status/{transactionId}", "get", "200", &status().await);
    let gasless = async || post(world, "gasless", &[], &signed("7").to_string()).await.json();
    check("/api/v1/relay/gasless", "post", "202", &gasless().await);
    check("/api/v1/relay/gasless", "post", "409", &gasless().await);
    let page = world.get("/api/v1/relay/transactions").await.json();
    assert_eq!(page["transfers"].as_array().unwrap().len(), 2);
    check("/api/v1/relay/transactions", "get", "200", &page);
}

/// The description of a server says what that server takes.
#[tokio::test]
async fn keys_services_and_assets_are_described_as_they_are_configured() {
    let open = description(&World::new()).await;
    let closed = description(&World::with(|config| {
        let key = ApiKey::from_secret("a secret of some length", "acme", &Scope::ALL);
        config.auth = Auth::Keys(vec![key]);
        config.internal.as_mut().unwrap().key_required = true;
    }))
    .await;
    let of_transfer = |api: &Value| api["paths"]["/transfer"]["post"]["security"].clone();
    assert_eq!(of_transfer(&open), json!([]));
    assert_eq!(of_transfer(&closed), json!([{"ApiKey": []}, {"Bearer": []}]));
    let order = |api: &Value| api["paths"]["/api/v1/transfer"]["post"]["parameters"][0].clone();
    assert_eq!(
        (&order(&open)["required"], &order(&closed)["required"]),
        (&json!(false), &json!(true))
    );
    let fields = &open["components"]["schemas"]["OrderRequest"];
    assert_eq!(fields["properties"]["to"]["enum"], json!(["funding", "trading"]));
    assert_eq!(fields["properties"]["asset"]["enum"], json!(["BTC"]));
    let body = &open["paths"]["/api/v1/transfer"]["post"]["requestBody"];
    let example = &body["content"]["application/json"]["example"];
    assert_eq!((&example["from"], &example["to"]), (&json!("funding"), &json!("trading")));
    assert_eq!((&example["asset"], &example["amount"]), (&json!("BTC"), &json!("1.5")));
    let same = json!({
        "if": {"properties": {"from": {"const": "funding"}}},
        "then": {"properties": {"to": {"not": {"const": "funding"}}}},
    });
    assert_eq!(fields["allOf"][0], same);
    let bitcoins = fields["allOf"][2]["then"]["properties"]["amount"]["pattern"].as_str().unwrap();
    let bitcoins = Regex::new(bitcoins).unwrap();
    assert!(bitcoins.is_match("184467440737.09551615"));
    assert!(!bitcoins.is_match("184467440737.09551616"));
}

#[tokio::test]
async fn pages_load_nothing_from_elsewhere() {
    let world = World::new();
    for path in ["/", "/docs"] {
        let page = world.get(path).await;
        assert_eq!(page.status, 200);
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
        assert!(page.header("content-security-policy").unwrap().starts_with("default-src 'none'"));
        for elsewhere in ["://", "src=", "@import", "url(\"", "href=\"//"] {
            assert!(!page.text.contains(elsewhere), "{path} has {elsewhere}");
        }
    }
}
