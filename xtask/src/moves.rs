//! The transfers between services of a run: all users, both ways, both assets, small amounts, so
//! that nobody ever runs out.

/// Smallest unit of an asset: the sixth decimal.
pub const DECIMALS: u32 = 6;
pub const ASSETS: [(u32, &str); 2] = [(1, "BTC"), (2, "USDT")];
pub const SERVICES: [&str; 2] = ["funding", "trading"];
/// What each user holds of each asset at each service, in smallest units: more than a run moves.
pub const HELD: u64 = 1_000_000_000_000;
/// Amounts are below this many smallest units.
const AMOUNT_MAX: u64 = 1_000;

/// The body of the `index`th request.
pub fn body(index: u64, users: u64) -> String {
    let users = users.max(1);
    let (user, round) = (1 + index % users, index / users);
    let way = (round % 2) as usize;
    let asset = ASSETS[(round / 2 % 2) as usize].1;
    let (from, to) = (SERVICES[way], SERVICES[1 - way]);
    let amount = format!("0.{:0width$}", 1 + index % AMOUNT_MAX, width = DECIMALS as usize);
    format!(
        r#"{{"from":"{from}","to":"{to}","user_id":{user},"asset":"{asset}","amount":"{amount}"}}"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_goes_both_ways_with_both_assets_for_every_user() {
        let check = |index: u64, way: (&str, &str), user: u64, asset: &str, amount: &str| {
            let body: serde_json::Value = serde_json::from_str(&body(index, 2)).expect("JSON");
            let expected = serde_json::json!({"from": way.0, "to": way.1, "user_id": user,
                "asset": asset, "amount": amount});
            assert_eq!(body, expected);
        };
        check(0, ("funding", "trading"), 1, "BTC", "0.000001");
        check(3, ("trading", "funding"), 2, "BTC", "0.000004");
        check(4, ("funding", "trading"), 1, "USDT", "0.000005");
        check(999, ("trading", "funding"), 2, "USDT", "0.001000");
    }
}
