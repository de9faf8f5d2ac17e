//! What a node says about itself and its chain.

use near_primitives::types::BlockReference;
use serde_json::{Value, json};

use super::super::ledger::View;
use super::super::ledger::block::derived;
use super::super::ledger::fees::{GAS_PRICE, GAS_PURCHASE_PRICE, TGAS};
use super::super::ledger::verify::{MAX_ACTIONS, PROTOCOL_VERSION};
use super::answer::{Failure, Reason};
use super::{blocks, parse, validator};

/// Age of the head beyond which a node is not healthy.
const STALE_HEAD_NS: u64 = 60_000_000_000;
const NODE_KEY: &str = "ed25519:11111111111111111111111111111111";

pub fn status(view: View, rpc_addr: &str) -> Value {
    let (head, earliest) = (view.head_block(), view.earliest_block());
    let genesis = view.ledger.genesis();
    let epoch = genesis.settings.epoch_blocks.max(1);
    let epoch_id = |number: u64| derived(&Default::default(), &number.to_le_bytes());
    json!({
        "chain_id": genesis.chain_id,
        "genesis_hash": view.ledger.chain().hash_at(view.ledger.chain().genesis_height()),
        "protocol_version": PROTOCOL_VERSION,
        "latest_protocol_version": PROTOCOL_VERSION,
        "rpc_addr": rpc_addr,
        "node_key": NODE_KEY,
        "node_public_key": NODE_KEY,
        "sync_info": {
            "latest_block_hash": head.hash,
            "latest_block_height": head.height,
            "latest_block_time": time(head.timestamp_ns),
            "latest_state_root": derived(&head.hash, b"state_root"),
            "syncing": false,
            "earliest_block_hash": earliest.hash,
            "earliest_block_height": earliest.height,
            "earliest_block_time": time(earliest.timestamp_ns),
            "epoch_id": epoch_id(head.height / epoch),
            "epoch_start_height": head.height / epoch * epoch,
        },
        "uptime_sec": (head.timestamp_ns.saturating_sub(genesis.timestamp_ns)) / 1_000_000_000,
        "validator_account_id": validator(),
        "validator_public_key": NODE_KEY,
        "validators": [{ "account_id": validator() }],
        "version": {
            "version": "2.13.3",
            "build": "landfall-sim",
            "commit": "0000000000000000000000000000000000000000",
            "rustc_version": "1.95.0",
        },
    })
}

/// A node that is far behind the chain says so here, and nowhere else.
pub fn health(view: View) -> Result<Value, Failure> {
    let newest = view.ledger.chain().head().timestamp_ns;
    let age = newest.saturating_sub(view.head_block().timestamp_ns);
    if age > STALE_HEAD_NS {
        let (seconds, nanos) = (age / 1_000_000_000, age % 1_000_000_000);
        return Err(Failure::of(Reason::NoNewBlocks { seconds, nanos }));
    }
    Ok(Value::Null)
}

pub fn genesis_config(view: View) -> Value {
    let genesis = view.ledger.genesis();
    let mut config = common_config(view);
    let more = json!({
        "chunk_producer_assignment_changes_limit": 5,
        "num_chunk_producer_seats": 100,
        "num_chunk_validator_seats": 300,
        "shard_layout": { "V2": {
            "boundary_accounts": [], "id_to_index_map": { "0": 0 }, "index_to_id_map": { "0": 0 },
            "shard_ids": [0], "shards_parent_map": null, "shards_split_map": null, "version": 0,
        } },
        "shuffle_shard_assignment_for_chunk_producers": false,
        "target_validator_mandates_per_shard": 68,
        "total_supply": "2050000000000000000000000000000000",
        "transaction_validity_period": genesis.settings.validity_blocks,
        "use_production_config": false,
        "validators": [{
            "account_id": validator(), "amount": "50000000000000000000000000000000",
            "public_key": NODE_KEY,
        }],
    });
    extend(&mut config, more);
    config
}

/// As much of it as tells the limits: the whole has hundreds of costs the simulator has not.
pub fn protocol_config(view: View, params: Value) -> Result<Value, Failure> {
    let reference: BlockReference = parse(params)?;
    blocks::find(view, &reference, "BLOCK HEADER")?;
    let settings = &view.ledger.genesis().settings;
    let mut config = common_config(view);
    let more = json!({
        "runtime_config": {
            "storage_amount_per_byte": "10000000000000000000",
            "min_gas_purchase_price": GAS_PURCHASE_PRICE.to_string(),
            "wasm_config": { "limit_config": {
                "max_total_prepaid_gas": settings.max_transaction_gas,
                "max_actions_per_receipt": MAX_ACTIONS,
                "max_transaction_size": 1_572_864,
            } },
        },
    });
    extend(&mut config, more);
    Ok(config)
}

fn common_config(view: View) -> Value {
    let genesis = view.ledger.genesis();
    json!({
        "block_producer_kickout_threshold": 90,
        "chain_id": genesis.chain_id,
        "chunk_producer_kickout_threshold": 90,
        "chunk_validator_only_kickout_threshold": 80,
        "dynamic_resharding": false,
        "epoch_length": genesis.settings.epoch_blocks,
        "fishermen_threshold": "10000000000000000000000000",
        "gas_limit": 1_000 * TGAS,
        "gas_price_adjustment_rate": [1, 100],
        "genesis_height": view.ledger.chain().genesis_height(),
        "genesis_time": time(genesis.timestamp_ns),
        "max_gas_price": "10000000000000000000000",
        "max_inflation_rate": [1, 20],
        "max_kickout_stake_perc": 100,
        "min_gas_price": GAS_PRICE.to_string(),
        "minimum_stake_divisor": 10,
        "minimum_stake_ratio": [1, 6250],
        "minimum_validators_per_shard": 1,
        "num_block_producer_seats": 50,
        "num_blocks_per_year": 31_536_000,
        "online_max_threshold": [99, 100],
        "online_min_threshold": [9, 10],
        "protocol_reward_rate": [1, 10],
        "protocol_treasury_account": validator(),
        "protocol_upgrade_stake_threshold": [4, 5],
        "protocol_version": PROTOCOL_VERSION,
    })
}

fn extend(config: &mut Value, more: Value) {
    if let (Some(config), Value::Object(more)) = (config.as_object_mut(), more) {
        config.extend(more);
    }
}

/// RFC 3339 in UTC with nanoseconds.
fn time(timestamp_ns: u64) -> String {
    let (seconds, nanos) = (timestamp_ns / 1_000_000_000, timestamp_ns % 1_000_000_000);
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanos:09}Z")
}

/// Days since 1970 as year, month and day (Howard Hinnant's algorithm).
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_the_node_writes_them() {
        // Both forms of the genesis time in the captures.
        assert_eq!(time(1_794_728_660_274_111_308), "2026-11-15T07:44:20.274111308Z");
        assert_eq!(time(0), "1970-01-01T00:00:00.000000000Z");
        assert_eq!(time(951_827_696_000_000_000), "2000-02-29T12:34:56.000000000Z");
    }
}
