//! Why a call was reverted, in words: what a contract gives back is its own.
//!
//! Solidity's `Error(string)` and `Panic(uint256)` are decoded, anything else is shown by its
//! selector. A contract may give back whatever it likes, so texts are cut and made plain.

use alloy_primitives::{Bytes, U256, hex};
use alloy_sol_types::{Panic, Revert, SolError};

/// Characters of a contract's own text that are kept.
const TEXT_MAX: usize = 300;
/// Bytes of an unknown error's arguments that are shown.
const SHOWN_BYTES: usize = 64;

/// What the data of a revert says.
pub fn reason(data: &Bytes) -> String {
    if data.is_empty() {
        return "reverted without a reason".to_owned();
    }
    if let Ok(Revert { reason }) = Revert::abi_decode(data) {
        let text: String = reason.chars().take(TEXT_MAX).collect();
        return format!("reverted: {}", landfall_core::plain::plain(&text));
    }
    if let Ok(Panic { code }) = Panic::abi_decode(data) {
        return format!("panicked: {} (0x{code:x})", panic_words(code));
    }
    let shown = &data[..data.len().min(SHOWN_BYTES)];
    match shown.split_at_checked(4) {
        Some((selector, [])) => format!("reverted with custom error 0x{}", hex::encode(selector)),
        Some((selector, arguments)) => format!(
            "reverted with custom error 0x{}, arguments 0x{}{}",
            hex::encode(selector),
            hex::encode(arguments),
            if data.len() > SHOWN_BYTES { "…" } else { "" }
        ),
        None => format!("reverted with 0x{}", hex::encode(shown)),
    }
}

/// The compiler's own words for its codes.
fn panic_words(code: U256) -> &'static str {
    match u64::try_from(code) {
        Ok(0x01) => "an assertion failed",
        Ok(0x11) => "arithmetic overflow or underflow",
        Ok(0x12) => "division by zero",
        Ok(0x21) => "no such value of an enumeration",
        Ok(0x22) => "badly encoded storage bytes",
        Ok(0x31) => "pop of an empty array",
        Ok(0x32) => "index out of bounds",
        Ok(0x41) => "too much memory",
        Ok(0x51) => "call of an uninitialised function",
        _ => "for a reason unknown to us",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn solidity_s_own_errors_are_put_into_words() {
        let error = Revert { reason: "ERC20: insufficient balance".to_owned() };
        assert_eq!(reason(&error.abi_encode().into()), "reverted: ERC20: insufficient balance");
        let panic = Panic { code: U256::from(0x11) };
        assert_eq!(
            reason(&panic.abi_encode().into()),
            "panicked: arithmetic overflow or underflow (0x11)"
        );
        let strange = Panic { code: U256::MAX };
        assert!(reason(&strange.abi_encode().into()).contains("unknown to us"));
    }

    #[test]
    fn a_custom_error_is_shown_by_its_selector() {
        let data = Bytes::from_static(&[0xde, 0xad, 0xbe, 0xef]);
        assert_eq!(reason(&data), "reverted with custom error 0xdeadbeef");
        let data = Bytes::from([&[0xde, 0xad, 0xbe, 0xef][..], &[7; 100]].concat());
        let told = reason(&data);
        assert!(told.starts_with("reverted with custom error 0xdeadbeef, arguments 0x0707"));
        assert!(told.ends_with('…') && told.len() < 220, "{told}");
    }

    #[test]
    fn whatever_a_contract_gives_back_is_told_in_a_line() {
        assert_eq!(reason(&Bytes::new()), "reverted without a reason");
        assert_eq!(reason(&Bytes::from_static(&[1, 2])), "reverted with 0x0102");
        let long = Revert { reason: "x".repeat(10_000) };
        assert!(reason(&long.abi_encode().into()).len() < 400);
        let hostile = Revert { reason: "paid\u{1b}[2J\u{202e}".to_owned() };
        let told = reason(&hostile.abi_encode().into());
        assert!(!told.contains('\u{1b}') && !told.contains('\u{202e}'), "{told:?}");
    }
}
