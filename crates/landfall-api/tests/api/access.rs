//! API keys, scopes, tenants, rate limits.

use landfall_api::{ApiConfig, ApiKey, Auth, BadApiKey, Scope};

use crate::world::{ALICE, Answer, World, request};

pub fn with_keys(config: &mut ApiConfig) {
    config.auth = Auth::Keys(vec![
        ApiKey::from_secret("both", "acme", &[Scope::Submit, Scope::Read]),
        ApiKey::from_secret("writer", "globex", &[Scope::Submit]),
        ApiKey::from_secret("reader", "acme", &[Scope::Read]),
        ApiKey::from_secret("operator", "", &[Scope::Operate]),
    ]);
}

async fn submit(world: &World, key: (&str, &str)) -> Answer {
    let headers = [("content-type", "application/json"), ("x-idempotency-key", "k"), key];
    world.send(request("POST", "/transfer", &headers, ALICE)).await
}

pub async fn fetch(world: &World, path: &str, key: &str) -> Answer {
    world.send(request("GET", path, &[("x-api-key", key)], "")).await
}

#[tokio::test]
async fn without_a_known_key_nobody_is_let_in() {
    let world = World::with(with_keys);
    let answer = submit(&world, ("accept", "*/*")).await;
    answer
        .check_error(401, "an API key is needed; send it as X-API-Key or as Authorization: Bearer");
    assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    let unknown = "the API key is not known here";
    submit(&world, ("x-api-key", "nobody")).await.check_error(401, unknown);
    submit(&world, ("x-api-key", "")).await.check_error(401, unknown);
    submit(&world, ("authorization", "Bearer nobody")).await.check_error(401, unknown);
    let scheme = "Authorization: must be \"Bearer\" and an API key";
    submit(&world, ("authorization", "Basic Ym90aDo=")).await.check_error(401, scheme);
    submit(&world, ("authorization", "Bearer ")).await.check_error(401, scheme);
    for path in ["/transfers", "/transfer/k"] {
        assert_eq!(world.get(path).await.status, 401);
    }
    assert_eq!(world.stored(), 0);
}

#[tokio::test]
async fn two_different_keys_in_one_request_are_refused() {
    let world = World::with(with_keys);
    let headers = [("x-api-key", "both"), ("authorization", "Bearer reader")];
    let answer = world.send(request("GET", "/transfers", &headers, "")).await;
    answer.check_error(401, "X-API-Key and Authorization name different API keys; send one");
    // What a proxy in between wants is none of ours.
    let headers = [("x-api-key", "both"), ("authorization", "Basic Ym90aDo=")];
    assert_eq!(world.send(request("GET", "/transfers", &headers, "")).await.status, 200);
}

#[tokio::test]
async fn a_key_does_what_its_scopes_say() {
    let world = World::with(with_keys);
    assert_eq!(submit(&world, ("authorization", "bearer both")).await.status, 201);
    let lacks = |scope: &str| format!("the API key lacks the scope \"{scope}\"");
    submit(&world, ("x-api-key", "reader")).await.check_error(403, &lacks("submit"));
    fetch(&world, "/transfer/k", "writer").await.check_error(403, &lacks("read"));
    fetch(&world, "/transfers", "writer").await.check_error(403, &lacks("read"));
    assert_eq!(fetch(&world, "/transfer/k", "reader").await.status, 200);
}

#[tokio::test]
async fn tenants_share_neither_keys_nor_transfers() {
    let world = World::with(with_keys);
    assert_eq!(submit(&world, ("x-api-key", "both")).await.status, 201);
    assert_eq!(submit(&world, ("x-api-key", "writer")).await.status, 201);
    assert_eq!(world.stored(), 2);
    let page = fetch(&world, "/transfers", "reader").await.json();
    assert_eq!(page["transfers"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn watching_needs_no_key() {
    let world = World::with(with_keys);
    for path in ["/", "/live", "/health", "/ready", "/docs", "/openapi.json"] {
        assert_eq!(world.get(path).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn metrics_are_for_operators_or_for_whoever_reaches_their_own_listener() {
    let world = World::with(with_keys);
    assert_eq!(world.get("/metrics").await.status, 401);
    let lacks = "the API key lacks the scope \"operate\"";
    fetch(&world, "/metrics", "both").await.check_error(403, lacks);
    assert_eq!(fetch(&world, "/metrics", "operator").await.status, 200);
    let apart = World { router: world.metrics.clone(), ..world };
    assert_eq!(apart.get("/metrics").await.status, 200);
    assert_eq!(apart.get("/health").await.status, 404);
    let open = World::with(|config| {
        with_keys(config);
        config.metrics_open = true;
    });
    assert_eq!(open.get("/metrics").await.status, 200);
}

#[tokio::test]
async fn each_key_has_its_own_rate() {
    let world = World::with(|config| {
        with_keys(config);
        config.rate_limit_per_s = Some(2);
    });
    for _ in 0..2 {
        assert_eq!(fetch(&world, "/transfers", "reader").await.status, 200);
    }
    let answer = fetch(&world, "/transfers", "reader").await;
    answer.check_error(429, "too many requests; try again in 1 s");
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(fetch(&world, "/transfers", "both").await.status, 200);
    world.pass_ms(500);
    assert_eq!(fetch(&world, "/transfers", "reader").await.status, 200);
}

#[tokio::test]
async fn each_of_many_counts_towards_the_rate() {
    let world = World::with(|config| config.rate_limit_per_s = Some(10));
    let body = format!("[{}1]", "1,".repeat(39));
    let headers = [("content-type", "application/json")];
    let answer = world.send(request("POST", "/transfers", &headers, body)).await;
    assert_eq!(answer.status, 200);
    let answer = world.get("/transfers").await;
    assert_eq!(answer.status, 429);
    assert_eq!(answer.header("retry-after"), Some("4"));
    world.pass_ms(4_000);
    assert_eq!(world.get("/transfers").await.status, 200);
}

#[test]
fn a_digest_stands_for_its_key_and_neither_is_shown() {
    let hex = "9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08";
    let key = ApiKey::from_sha256_hex(hex, "acme", &[Scope::Read]).unwrap();
    let shown = format!("{key:?} {:?}", ApiKey::from_secret("test", "acme", &[]));
    assert_eq!(
        shown,
        "ApiKey { tenant: \"acme\", scopes: [Read], .. } \
         ApiKey { tenant: \"acme\", scopes: [], .. }"
    );
    for wrong in ["", "9f86", &hex[1..], &hex.replace('9', "g"), &"é".repeat(32)] {
        assert_eq!(ApiKey::from_sha256_hex(wrong, "acme", &[]).unwrap_err(), BadApiKey);
    }
}

#[tokio::test]
async fn a_configured_digest_lets_its_key_in() {
    let hex = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let key = ApiKey::from_sha256_hex(hex, "acme", &[Scope::Read]).unwrap();
    let world = World::with(|config| config.auth = Auth::Keys(vec![key]));
    assert_eq!(fetch(&world, "/transfers", "test").await.status, 200);
}
