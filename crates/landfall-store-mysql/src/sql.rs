//! Scripts: several statements that travel to the server in one round trip.
//!
//! **Invariant:** a value is written as a number or in hexadecimal, so there is nothing to escape
//! and no setting of a session, or of a proxy before it, that could turn data into a statement.
//! The server stops at the first statement that fails: what stands before `COMMIT` guards it.
//! Not here: sending them (`connections`).

use std::fmt::Write;

/// Bytes of one message to the server; the least that servers accept by default is 16 MiB.
const MESSAGE_BYTES: usize = 4 << 20;
/// Bytes of one statement of many rows, unless one row is longer.
const STATEMENT_BYTES: usize = 1 << 20;

/// The server's own time in milliseconds. The session's zone is UTC, where no hour comes twice.
pub(crate) const SERVER_NOW: &str = "CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)";

/// Statements in the order they run.
#[derive(Debug, Default)]
pub struct Script {
    /// Full messages before the one that is being written, with their numbers of statements.
    full: Vec<(String, usize)>,
    text: String,
    statements: usize,
}

impl Script {
    /// A script that begins a transaction.
    pub fn transaction() -> Script {
        let mut script = Script::default();
        script.say("START TRANSACTION");
        script
    }

    /// A script whose reads all see the same moment.
    pub fn snapshot() -> Script {
        let mut script = Script::default();
        script.say("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ");
        script.say("START TRANSACTION READ ONLY");
        script
    }

    /// Begins another statement; returns its number, from which its answer is found.
    pub fn say(&mut self, text: &str) -> usize {
        if self.text.len() > MESSAGE_BYTES {
            self.full.push((std::mem::take(&mut self.text), self.statements));
            self.statements = 0;
        }
        if self.statements > 0 {
            self.text.push(';');
        }
        self.text.push_str(text);
        self.statements += 1;
        self.full.iter().map(|(_, statements)| statements).sum::<usize>() + self.statements - 1
    }

    /// Goes on with the statement.
    pub fn text(&mut self, text: &str) -> &mut Script {
        self.text.push_str(text);
        self
    }

    pub fn int(&mut self, value: impl Into<i64>) -> &mut Script {
        let value: i64 = value.into();
        // Writing to a string does not fail.
        let _ = write!(self.text, "{value}");
        self
    }

    pub fn bytes(&mut self, bytes: impl AsRef<[u8]>) -> &mut Script {
        push_hex(&mut self.text, bytes.as_ref());
        self
    }

    /// `(1,2,3)`; never called with nothing, which is no SQL.
    pub fn ints(&mut self, values: impl IntoIterator<Item = i64>) -> &mut Script {
        self.list(values, |script, value| {
            script.int(value);
        })
    }

    pub fn keys<B: AsRef<[u8]>>(&mut self, values: impl IntoIterator<Item = B>) -> &mut Script {
        self.list(values, |script, value| {
            script.bytes(value);
        })
    }

    fn list<T>(
        &mut self,
        values: impl IntoIterator<Item = T>,
        write: impl Fn(&mut Script, T),
    ) -> &mut Script {
        let mut before = '(';
        for value in values {
            self.text.push(before);
            write(self, value);
            before = ',';
        }
        self.text.push(')');
        self
    }

    /// Statements of many rows, `head (…),(…) tail`: none for no rows, several for very many.
    pub fn rows<T>(
        &mut self,
        head: &str,
        items: impl IntoIterator<Item = T>,
        tail: &str,
        write: impl Fn(&mut Row<'_>, T),
    ) {
        let mut began = None;
        for item in items {
            match began {
                Some(start) if self.text.len() - start < STATEMENT_BYTES => self.text.push(','),
                Some(_) => {
                    self.text.push_str(tail);
                    began = Some(self.begin_rows(head));
                }
                None => began = Some(self.begin_rows(head)),
            }
            self.text.push('(');
            write(&mut Row { text: &mut self.text, empty: true }, item);
            self.text.push(')');
        }
        if began.is_some() {
            self.text.push_str(tail);
        }
    }

    /// All the rows in the statement that was begun, however many.
    pub(crate) fn values<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        write: impl Fn(&mut Row<'_>, T),
    ) {
        for (number, item) in items.into_iter().enumerate() {
            self.text.push_str(if number == 0 { "(" } else { ",(" });
            write(&mut Row { text: &mut self.text, empty: true }, item);
            self.text.push(')');
        }
    }

    fn begin_rows(&mut self, head: &str) -> usize {
        self.say(head);
        self.text.len()
    }

    /// The messages, each with its number of statements.
    pub(crate) fn messages(self) -> impl Iterator<Item = (String, usize)> {
        self.full.into_iter().chain(std::iter::once((self.text, self.statements)))
    }
}

/// One row of values.
pub struct Row<'a> {
    text: &'a mut String,
    empty: bool,
}

impl Row<'_> {
    fn next(&mut self) -> &mut String {
        if !self.empty {
            self.text.push(',');
        }
        self.empty = false;
        self.text
    }

    pub fn int(&mut self, value: impl Into<i64>) -> &mut Self {
        let value: i64 = value.into();
        let _ = write!(self.next(), "{value}");
        self
    }

    pub(crate) fn maybe_int(&mut self, value: Option<i64>) -> &mut Self {
        match value {
            Some(value) => self.int(value),
            None => self.expression("NULL"),
        }
    }

    pub fn bytes(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        push_hex(self.next(), bytes.as_ref());
        self
    }

    pub fn maybe_bytes<B: AsRef<[u8]>>(&mut self, bytes: Option<B>) -> &mut Self {
        match bytes {
            Some(bytes) => self.bytes(bytes),
            None => self.expression("NULL"),
        }
    }

    /// SQL of our own.
    pub(crate) fn expression(&mut self, sql: &str) -> &mut Self {
        self.next().push_str(sql);
        self
    }

    /// The number that a variable of the session holds, and some more.
    pub(crate) fn above(&mut self, variable: &str, by: u64) -> &mut Self {
        let _ = write!(self.next(), "{variable}+{by}");
        self
    }
}

fn push_hex(text: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    text.reserve(bytes.len() * 2 + 3);
    text.push_str("X'");
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text.push('\'');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(script: Script) -> Vec<(String, usize)> {
        script.messages().collect()
    }

    #[test]
    fn text_with_quotes_in_it_is_still_only_data() {
        let mut script = Script::transaction();
        script.rows(
            "INSERT INTO t VALUES",
            ["';--"],
            " ON DUPLICATE KEY UPDATE a=a",
            |row, text| {
                row.int(7).bytes(text).maybe_int(None);
            },
        );
        let sql = "START TRANSACTION;INSERT INTO t VALUES(7,X'273B2D2D',NULL) \
                   ON DUPLICATE KEY UPDATE a=a";
        assert_eq!(messages(script), [(sql.to_owned(), 2)]);
    }

    #[test]
    fn no_rows_are_no_statement() {
        let mut script = Script::default();
        script.rows("INSERT INTO t VALUES", [0; 0], "", |row, value| {
            row.int(value);
        });
        assert_eq!(script.say("COMMIT"), 0);
        assert_eq!(messages(script), [("COMMIT".to_owned(), 1)]);
    }

    #[test]
    fn what_is_too_long_for_one_message_goes_in_several() {
        let mut script = Script::default();
        let long = vec![0; STATEMENT_BYTES / 2];
        script.rows("INSERT INTO t VALUES", 0..5, "", |row, _| {
            row.bytes(&long);
        });
        assert_eq!(script.say("COMMIT"), 5);
        let sent = messages(script);
        assert_eq!(sent.iter().map(|(_, statements)| statements).sum::<usize>(), 6);
        assert!(sent.len() > 1 && sent.iter().all(|(text, _)| text.len() < 2 * MESSAGE_BYTES));
    }
}
