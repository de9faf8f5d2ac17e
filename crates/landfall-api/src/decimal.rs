//! Amounts as a pattern (ECMA 262): what a description can say of the numbers that are taken.
//!
//! **Rule:** the pattern and `landfall_core::internal` take the same texts, zero aside: that is
//! said beside the pattern.

/// The pattern of decimal numbers with up to `decimals` digits after the point that come to at
/// most `u64::MAX` of the last.
pub fn pattern(decimals: u8) -> String {
    let decimals = usize::from(decimals);
    let most = u64::MAX.to_string();
    let (whole, rest) = most.split_at(most.len() - decimals);
    let shorter = format!("[0-9]{{1,{}}}", whole.len() - 1);
    let less: Vec<String> = std::iter::once(shorter).chain(below(whole, true)).collect();
    let less = less.join("|");
    if decimals == 0 {
        return format!("^0*({less}|{whole})$");
    }
    let prefixes = (1..=decimals).map(|length| rest[..length].to_owned());
    let no_more: Vec<String> = below(rest, false).chain(prefixes).collect();
    let no_more = no_more.join("|");
    format!("^0*(({less})(\\.[0-9]{{1,{decimals}}})?|{whole}(\\.({no_more}))?)$")
}

/// Alternatives for the digits that first differ from those of `limit` by being less: all of them
/// given, or as many as one likes.
fn below(limit: &str, all: bool) -> impl Iterator<Item = String> {
    limit.char_indices().filter(|(_, digit)| *digit > '0').map(move |(index, digit)| {
        let left = limit.len() - index - 1;
        let least = if all { left } else { 0 };
        let before = &limit[..index];
        format!("{before}[0-{}][0-9]{{{least},{left}}}", char::from(digit as u8 - 1))
    })
}

#[cfg(test)]
mod tests {
    use landfall_core::internal::{Asked, Asset, DECIMALS_MAX, Order, Terms};
    use regex::Regex;

    use super::*;

    #[test]
    fn the_pattern_takes_what_the_server_takes() {
        for decimals in 0..=DECIMALS_MAX {
            let pattern = Regex::new(&pattern(decimals)).unwrap();
            let asset = Asset { id: 1, symbol: "A".into(), decimals };
            let terms = Terms { services: vec!["a".into(), "b".into()], assets: vec![asset] };
            for text in texts(decimals) {
                let asked = Asked { from: "a", to: "b", user_id: 1, asset: "A", amount: &text };
                let taken = Order::new(&terms, asked).is_ok();
                let is_nothing = text.chars().all(|letter| "0.".contains(letter));
                assert_eq!(taken, pattern.is_match(&text) && !is_nothing, "{text} ({decimals})");
            }
        }
    }

    /// Numbers around every power of ten and the largest, written in every way.
    fn texts(decimals: u8) -> Vec<String> {
        let unit = 10_u128.pow(u32::from(decimals));
        let powers = (0..=20).map(|power| 10_u128.pow(power));
        let most = u128::from(u64::MAX);
        let near = powers.chain([most, most / 10, most / 100 * 90]);
        let near = near.flat_map(|number| [number.saturating_sub(1), number, number + 1]);
        let width = usize::from(decimals);
        let mut texts: Vec<String> = ["", ".", "1.", ".5", "-1", "+1", "1e3", " 1", "1.5.5", "0.0"]
            .map(str::to_owned)
            .to_vec();
        for number in near {
            let exact = format!("{}.{:0width$}", number / unit, number % unit);
            let short = exact.trim_end_matches('0').to_owned();
            texts.extend([(number / unit).to_string(), format!("00{exact}"), format!("{exact}0")]);
            texts.extend([exact, short]);
        }
        texts
    }
}
