//! Which store it is, and in which life: a server that was restarted may have forgotten.
//!
//! The sign of life is a row in a table that the server keeps in memory only: whoever finds none
//! draws another. A replica has a server id of its own, and tables that were restored from a dump
//! have a time of creation of their own; so all three name the incarnation.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error};

use crate::connections::{Answer, take_text};
use crate::fault::{Done, corrupt};

/// Asks for the incarnation; no row if the server has just started.
pub(crate) const INCARNATION: &str = "SELECT CONCAT(@@server_id, '-', token, '-',
        (SELECT COALESCE(UNIX_TIMESTAMP(CREATE_TIME), 0) FROM information_schema.TABLES
         WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'landfall_lanes'))
    FROM landfall_life";

/// Of two that draw at once, the first is believed.
const DRAW: &str = "INSERT IGNORE INTO landfall_life
    VALUES (1, LEFT(SHA2(CONCAT(UUID(), ':', RAND(), ':', NOW(6)), 256), 32))";

const NO_SUCH_TABLE: u16 = 1146;

/// Who a store is.
pub(crate) struct Identity {
    pub id: String,
    pub incarnation: String,
}

impl Identity {
    /// None if there are no tables.
    pub(crate) async fn read(conn: &mut Conn) -> Done<Option<Identity>> {
        let sql = "SELECT value FROM landfall_meta WHERE name = 'identity'";
        let id = match conn.query_first::<String, _>(sql).await {
            Err(Error::Server(error)) if error.code == NO_SUCH_TABLE => return Ok(None),
            other => other?,
        };
        let Some(id) = id else { return Ok(None) };
        let mut incarnation: Option<String> = conn.query_first(INCARNATION).await?;
        if incarnation.is_none() {
            conn.query_drop(DRAW).await?;
            incarnation = conn.query_first(INCARNATION).await?;
        }
        let incarnation = incarnation.ok_or_else(|| corrupt("the server keeps no sign of life"))?;
        Ok(Some(Identity { id, incarnation }))
    }
}

/// What [`INCARNATION`] answered.
pub(crate) fn incarnation_from(answer: &mut Answer) -> Done<Option<String>> {
    answer.rows.first_mut().map(|row| take_text(row, 0)).transpose()
}
