//! What the description of the API says of moves between services: those that are configured.

use landfall_core::internal::{Asset, Terms};
use serde_json::{Value, json};

use super::wire::{Described, OrderBody, described};
use crate::config::Gateway;
use crate::decimal;
use crate::describe::{Part, filled};

pub fn describe(gateway: Option<&Gateway>) -> Part {
    let terms = gateway.map_or_else(example, |gateway| gateway.terms.clone());
    let symbols = terms.assets.iter().map(|asset| json!(asset.symbol)).collect();
    let services = terms.services.iter().map(|name| json!(name)).collect();
    let named = |index: usize| vec![json!(terms.services.get(index))];
    let first = terms.assets.first();
    let amount = if first.is_some_and(|asset| asset.decimals == 0) { "1" } else { "1.5" };
    let marks = [
        ("\"$key_required\"", vec![json!(gateway.is_some_and(|gateway| gateway.key_required))]),
        ("\"$services\"", services),
        ("\"$from\"", named(0)),
        ("\"$to\"", named(1)),
        ("\"$asset\"", vec![json!(first.map(|asset| &asset.symbol))]),
        ("\"$amount\"", vec![json!(amount)]),
        ("\"$assets\"", symbols),
        ("\"$order_rules\"", order_rules(&terms)),
    ];
    let part = Part::of(&filled(include_str!("openapi.json"), &marks)).with::<Described>();
    part.with_page::<OrderBody<'_>>("OrderPage").and("OrderState", described::states())
}

/// Shown where the rail is off: its routes say so themselves.
fn example() -> Terms {
    let asset = Asset { id: 1, symbol: "BTC".to_owned(), decimals: 8 };
    Terms { services: ["funding", "trading"].map(str::to_owned).to_vec(), assets: vec![asset] }
}

/// What the fields of an order ask of each other: two services, and no more than an asset can hold.
fn order_rules(terms: &Terms) -> Vec<Value> {
    let rule = |field: &str, is: &str, other: &str, then: Value| {
        json!({
            "if": {"properties": {field: {"const": is}}},
            "then": {"properties": {other: then}},
        })
    };
    let elsewhere = |name: &String| rule("from", name, "to", json!({"not": {"const": name}}));
    let within = |asset: &Asset| {
        let pattern = decimal::pattern(asset.decimals);
        rule("asset", &asset.symbol, "amount", json!({"pattern": pattern}))
    };
    terms.services.iter().map(elsewhere).chain(terms.assets.iter().map(within)).collect()
}
