//! Text from elsewhere, made fit for a terminal.
//!
//! What a ledger, a service, a memo or a client said may hold characters that move the cursor,
//! change colours, or turn the order of what is read around: shown as they are, they could make one
//! line look like another. They are written out, as `\u202e`, which is right in JSON, too.

use std::borrow::Cow;
use std::fmt::Write as _;

/// One line of text: line ends are written out as well.
pub fn plain(text: &str) -> Cow<'_, str> {
    fit(text, &[])
}

/// Whole lines, in which `kept` may stand: our own colours, and line ends.
pub fn fit<'a>(text: &'a str, kept: &[&str]) -> Cow<'a, str> {
    if !text.contains(is_unfit) {
        return Cow::Borrowed(text);
    }
    let mut fit = String::with_capacity(text.len() + 8);
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let own = kept.iter().find(|own| rest.starts_with(**own));
        let taken = own.map_or(character.len_utf8(), |own| own.len());
        match own.is_none() && is_unfit(character) {
            // Writing to a string cannot fail. All of them have four digits.
            true => _ = write!(fit, "\\u{:04x}", u32::from(character)),
            false => fit.push_str(&rest[..taken]),
        }
        rest = &rest[taken..];
    }
    Cow::Owned(fit)
}

/// Controls, and the marks, embeddings, overrides and isolates of writing from right to left.
fn is_unfit(character: char) -> bool {
    let turns = ['\u{61c}', '\u{200e}', '\u{200f}'];
    let ranges = ['\u{2028}'..='\u{202e}', '\u{2066}'..='\u{2069}'];
    character.is_control()
        || turns.contains(&character)
        || ranges.iter().any(|range| range.contains(&character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_deceive_a_reader_is_written_out() {
        assert_eq!(plain("thanks, 🚢 שלום"), "thanks, 🚢 שלום");
        assert_eq!(plain("a\u{1b}[2Jb\r\nc\u{9b}"), "a\\u001b[2Jb\\u000d\\u000ac\\u009b");
        assert_eq!(plain("pay \u{202e}001\u{2069}"), "pay \\u202e001\\u2069");
        let ours = ["\n", "\u{1b}[32m"];
        assert_eq!(fit("\u{1b}[32mok\n\u{1b}[2J", &ours), "\u{1b}[32mok\n\\u001b[2J");
    }
}
