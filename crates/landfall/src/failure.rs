//! How a command ends badly: one sentence, what to do, and an exit code that scripts can rely on.

use std::fmt;
use std::process::ExitCode;

use landfall_core::store::StoreError;

use crate::config::Mistakes;

/// For `--help`; the README says the same.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  done; for check and audit: everything is as it should be
  1  the answer is no: not found, a connection failed, the audit found a difference
  2  a mistake in the command or the configuration
  3  it could not be done: the store or the ledger cannot be reached";

/// For `landfall torture --help`.
pub const TORTURE_EXIT_CODES: &str = "\
Exit codes:
  0  held
  1  safety: something was paid twice, or a final state is not true
  2  liveness: something never came to rest (or a mistake in the command)
  3  crash: the relay panicked";

/// Why a command stopped.
#[derive(Debug)]
pub enum Failure {
    /// The answer is no. Everything worth saying was said already if the text is empty.
    No(String),
    /// The user has to mend something first. The same of an empty text.
    Mistaken(String),
    /// Something outside does not work.
    Unable(String),
}

pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Failure::No(_) => ExitCode::from(1),
            Failure::Mistaken(_) => ExitCode::from(2),
            Failure::Unable(_) => ExitCode::from(3),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::No(text) | Failure::Mistaken(text) | Failure::Unable(text) => {
                f.write_str(text)
            }
        }
    }
}

impl From<Mistakes> for Failure {
    fn from(mistakes: Mistakes) -> Failure {
        Failure::Mistaken(mistakes.to_string())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        let remedy = match error {
            StoreError::Unavailable(_) => "is its disk full, or another process holding it?",
            StoreError::Corrupt(_) => "stop every process that uses it and keep a copy of it",
        };
        Failure::Unable(format!("{error}; {remedy}"))
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::Unable(error.to_string())
    }
}
