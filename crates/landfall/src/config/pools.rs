//! A shield pool on Solana, as settings.

use landfall_rail_solana::Address;

use super::check::nodes;
use super::value::{Parse, Raw, Wrongs, text, wrong};
use super::{Config, Need, Reading};

/// An account on Solana.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SolanaAddress(pub Address);

impl Parse for SolanaAddress {
    const KIND: &'static str = "address of a program";
    fn parse(raw: &Raw) -> Result<SolanaAddress, Wrongs> {
        let text = text(raw, "an address in quotes")?;
        let read = text.parse().map(SolanaAddress);
        read.or_else(|_| wrong(format!("is {text:?}, no address"), "give it in base58"))
    }
}

/// Finds what is missing.
pub(super) fn complete(config: &Config, reading: &mut Reading, need: Need) {
    let solana = &config.solana;
    if solana.rpc_urls.is_empty() && !reading.is_mistaken("solana.rpc_urls") {
        let remedy = "set it in the file, or as SOLANA_RPC_URL, such as \
                      https://api.devnet.solana.com";
        reading.mistake("solana.rpc_urls", "is missing", remedy);
    }
    let has_payer = solana.keypair_path.is_some() || !solana.keypairs.is_empty();
    let is_mistaken =
        ["solana.keypair_path", "solana.keypairs"].iter().any(|one| reading.is_mistaken(one));
    if !has_payer && need != Need::Take && !is_mistaken {
        let remedy = "name a keypair file in it, or as RELAY_KEYPAIR_PATH";
        reading.mistake("solana.keypair_path", "is missing", remedy);
    }
    if solana.price_min > solana.price_max {
        let message = format!("is {}, more than solana.price_max", solana.price_min);
        reading.mistake("solana.price_min", message, "give at most as much");
    }
    nodes("solana", &solana.nodes, solana.rpc_urls.len() as u64, reading);
}
