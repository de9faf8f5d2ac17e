//! Mistakes in a configuration: where, what, and how to mend it. All of them are told at once.
//!
//! **Rule:** a mistake never repeats a value that may be a secret.

use std::fmt;

/// Edits between two names up to which one is offered for the other.
const SIMILAR_EDITS_MAX: usize = 3;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    Flag(&'static str),
    Variable(String),
    File {
        path: String,
        line: usize,
    },
    /// Nobody said anything.
    Missing,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Flag(name) => f.write_str(name),
            Place::Variable(name) => write!(f, "variable {name}"),
            Place::File { path, line } => write!(f, "{path}:{line}"),
            Place::Missing => f.write_str("configuration"),
        }
    }
}

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    pub place: Place,
    /// `section.key`, where it is about one.
    pub setting: Option<String>,
    pub message: String,
    pub remedy: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if let Some(setting) = &self.setting {
            write!(f, "{setting} ")?;
        }
        write!(f, "{}; {}", self.message, self.remedy)
    }
}

/// Every mistake of a configuration. Never empty as an error.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mistakes(pub Vec<Mistake>);

impl std::error::Error for Mistakes {}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = if self.0.len() == 1 { "mistake" } else { "mistakes" };
        write!(f, "the configuration has {} {noun}:", self.0.len())?;
        for mistake in &self.0 {
            write!(f, "\n  {mistake}")?;
        }
        Ok(())
    }
}

/// The known name most like `wrong`, if one is like it at all.
pub fn similar<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(wrong, name), name))
        .filter(|(edits, name)| *edits <= SIMILAR_EDITS_MAX && *edits * 2 < name.len())
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_hand_is_recognised_and_a_stranger_is_not() {
        let known = ["listen", "body_limit_bytes", "auth"];
        assert_eq!(similar("lisen", known), Some("listen"));
        assert_eq!(similar("body_limit_byte", known), Some("body_limit_bytes"));
        assert_eq!(similar("colour", known), None);
    }
}
