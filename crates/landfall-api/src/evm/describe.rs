//! What the description of the API says of calls on EVM chains: those that are configured.

use serde_json::json;

use super::wire::{CallBody, Described, described};
use crate::config::EvmTerms;
use crate::describe::{Part, filled};

pub fn describe(terms: Option<&EvmTerms>) -> Part {
    // Shown where the rail is off: its routes say so themselves.
    let names = terms.map_or_else(|| vec!["evm"], EvmTerms::names);
    let default = vec![json!(names.first())];
    let names = names.into_iter().map(|name| json!(name)).collect();
    let marks = [("\"$chains\"", names), ("\"$chain\"", default)];
    let part = Part::of(&filled(include_str!("openapi.json"), &marks)).with::<Described>();
    part.with_page::<CallBody<'_>>("RelayPage").and("RelayState", described::states())
}
