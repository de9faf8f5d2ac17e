//! The schema, as steps from one version to the next.
//!
//! A step, once released, is never changed; a change of layout is another step. The version is
//! the file's own `user_version`.

use landfall_sqlite::Layout;

/// The mark of the file, its schema, and the memory of its connections.
pub(crate) const LAYOUT: Layout = Layout {
    // "LFBK" in ASCII.
    application_id: 0x4C46_424B,
    steps: &[FIRST],
    // Ids are random, so their index is read all over.
    page_cache_kib: 32 * 1024,
    // More than there are statements.
    statements_kept: 32,
};

const FIRST: &str = "
-- Whose book it is: name and kind.
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

-- Users and amounts use all 64 bits: a number below zero stands for itself plus 2^64.
CREATE TABLE accounts (
    number INTEGER PRIMARY KEY,
    user INTEGER NOT NULL,
    asset INTEGER NOT NULL,
    available INTEGER NOT NULL,
    frozen INTEGER NOT NULL,
    reserved INTEGER NOT NULL,
    blocked INTEGER NOT NULL DEFAULT 0,
    -- The operation that changed it last.
    seq INTEGER NOT NULL,
    UNIQUE (user, asset)
);

-- The statement, which is also what is known under each id. Never changed, only appended to.
CREATE TABLE operations (
    seq INTEGER PRIMARY KEY,
    -- Sixteen bytes, or none for money from outside, which has a reference.
    req_id BLOB,
    reference TEXT,
    verb TEXT NOT NULL,
    user INTEGER NOT NULL,
    asset INTEGER NOT NULL,
    amount INTEGER NOT NULL,
    -- None if it was done.
    refusal TEXT,
    at_ms INTEGER NOT NULL,
    available INTEGER NOT NULL,
    frozen INTEGER NOT NULL,
    CHECK ((req_id IS NULL) <> (reference IS NULL))
);
CREATE UNIQUE INDEX operations_request ON operations (req_id, verb) WHERE req_id IS NOT NULL;
CREATE UNIQUE INDEX operations_reference ON operations (reference) WHERE reference IS NOT NULL;
CREATE INDEX operations_account ON operations (user, asset, seq);
";
