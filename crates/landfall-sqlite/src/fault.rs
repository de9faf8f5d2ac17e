//! Failures inside a file, on their way to becoming an error of whoever keeps it.
//!
//! A [`Fault`] ends the transaction it happens in. What a job refuses without having written
//! anything is an answer, not a fault.

use rusqlite::ErrorCode;

/// What a statement or a row could not do, cut by what the caller does next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It may or may not have been committed. Repeat it.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// What is kept contradicts itself. An operator must look.
    #[error("corrupt: {0}")]
    Corrupt(String),
}

pub type Done<T> = Result<T, Fault>;

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Fault {
        let damaged = matches!(
            error.sqlite_error_code(),
            Some(
                ErrorCode::DatabaseCorrupt
                    | ErrorCode::NotADatabase
                    | ErrorCode::ConstraintViolation
                    | ErrorCode::TypeMismatch
            )
        ) || matches!(
            error,
            rusqlite::Error::FromSqlConversionFailure(..)
                | rusqlite::Error::IntegralValueOutOfRange(..)
                | rusqlite::Error::InvalidColumnType(..)
        );
        let message = error.to_string();
        if damaged { Fault::Corrupt(message) } else { Fault::Unavailable(message) }
    }
}

impl From<serde_json::Error> for Fault {
    fn from(error: serde_json::Error) -> Fault {
        corrupt(format!("a stored record does not parse: {error}"))
    }
}

pub fn corrupt(message: impl Into<String>) -> Fault {
    Fault::Corrupt(message.into())
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    fn check(sql: &str, damaged: bool) {
        let db = Connection::open_in_memory().expect("a database");
        db.execute_batch("CREATE TABLE numbers (number INTEGER PRIMARY KEY)").expect("a table");
        db.execute_batch("INSERT INTO numbers VALUES (1)").expect("a row");
        let error = db.query_row(sql, [], |row| row.get::<_, i64>(0)).expect_err(sql);
        assert_eq!(matches!(Fault::from(error), Fault::Corrupt(_)), damaged, "{sql}");
    }

    #[test]
    fn what_contradicts_itself_is_corrupt_and_the_rest_may_be_repeated() {
        check("INSERT INTO numbers VALUES (1) RETURNING number", true);
        check("INSERT INTO numbers VALUES ('one') RETURNING number", true);
        check("SELECT 'one'", true);
        check("SELECT number FROM letters", false);
        check("SELECT number FROM numbers WHERE number = 2", false);
    }
}
