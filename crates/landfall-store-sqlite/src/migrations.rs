//! The schema, as steps from one version to the next.
//!
//! A step, once released, is never changed; a change of layout is another step. The version is
//! the file's own `user_version`.
//!
//! How the layout is fast: what changes with every move is narrow and apart from what never
//! changes; the trail is only appended to; the index of what is due holds live rows alone; keys
//! are found by a number, not by their text.

use landfall_sqlite::Layout;

/// The mark of the file, its schema, and the memory of its connections.
pub(crate) const LAYOUT: Layout = Layout {
    // "LFLD" in ASCII.
    application_id: 0x4C46_4C44,
    steps: &[FIRST, CONFIRMED, SIGNATURES],
    page_cache_kib: 64 * 1024,
    // More than there are statements.
    statements_kept: 128,
};

const FIRST: &str = "
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES ('identity', lower(hex(randomblob(16))));

-- The names behind the codes of states, and how many transfers are in each.
CREATE TABLE states (
    code INTEGER PRIMARY KEY,
    rail TEXT NOT NULL,
    name TEXT NOT NULL,
    transfers INTEGER NOT NULL DEFAULT 0,
    UNIQUE (rail, name)
);

-- Idempotency keys. Never deleted, whatever becomes of the transfer; ids are never given again.
CREATE TABLE keys (
    id INTEGER PRIMARY KEY,
    rail TEXT NOT NULL,
    tenant TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint BLOB NOT NULL
);
-- A hash of (rail, tenant, key); if it is taken by another key, the next free number.
CREATE TABLE key_hashes (hash INTEGER PRIMARY KEY, transfer INTEGER NOT NULL);

-- What never changes.
CREATE TABLE payloads (
    id INTEGER PRIMARY KEY,
    created_ms INTEGER NOT NULL,
    receiver TEXT NOT NULL,
    payload TEXT NOT NULL,
    trail BLOB NOT NULL
);
CREATE INDEX payloads_receiver ON payloads (receiver);

-- What changes with every move.
CREATE TABLE transfers (
    id INTEGER PRIMARY KEY,
    state INTEGER NOT NULL,
    version INTEGER NOT NULL,
    attempt INTEGER,
    due_ms INTEGER,
    stage_retries INTEGER NOT NULL,
    retry_count INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    completed_ms INTEGER,
    dead INTEGER,
    tx_hash TEXT,
    aside TEXT,
    error TEXT
);
CREATE INDEX transfers_due ON transfers (state, due_ms) WHERE due_ms IS NOT NULL;
CREATE INDEX transfers_dead ON transfers (id) WHERE dead = 1;

-- The entries of one move each, in the order of the moves.
CREATE TABLE trail (
    seq INTEGER PRIMARY KEY,
    transfer INTEGER NOT NULL,
    entries BLOB NOT NULL
);
CREATE INDEX trail_transfer ON trail (transfer);

CREATE TABLE lanes (
    code INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    rail TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    holder TEXT,
    lease_until_ms INTEGER NOT NULL,
    base_nonce INTEGER,
    next_nonce INTEGER,
    halt_reason TEXT,
    halt_at_ms INTEGER
);

CREATE TABLE attempts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    lane INTEGER NOT NULL,
    nonce INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    opened_ms INTEGER NOT NULL,
    decided_ms INTEGER,
    UNIQUE (lane, nonce)
);
CREATE INDEX attempts_open ON attempts (lane, nonce) WHERE decided_ms IS NULL;
-- What never changes of an attempt. Members are ids of eight bytes each, least byte first.
CREATE TABLE bodies (
    attempt INTEGER PRIMARY KEY,
    purpose TEXT NOT NULL,
    hash TEXT NOT NULL,
    base_block TEXT NOT NULL,
    base_height INTEGER NOT NULL,
    expires_height INTEGER NOT NULL,
    members BLOB NOT NULL,
    bytes BLOB NOT NULL
);
CREATE TABLE fates (attempt INTEGER PRIMARY KEY, fate TEXT NOT NULL);
CREATE TABLE sightings (
    seq INTEGER PRIMARY KEY,
    attempt INTEGER NOT NULL,
    sighting TEXT NOT NULL
);
CREATE INDEX sightings_attempt ON sightings (attempt);

-- A claim without an owner ended kept.
CREATE TABLE claims (
    space TEXT NOT NULL,
    key TEXT NOT NULL,
    owner INTEGER,
    PRIMARY KEY (space, key)
) WITHOUT ROWID;
CREATE TABLE claim_waiters (
    space TEXT NOT NULL,
    key TEXT NOT NULL,
    waiter INTEGER NOT NULL,
    PRIMARY KEY (space, key, waiter)
) WITHOUT ROWID;
";

/// The fact that the far side of a transfer has its part for good.
const CONFIRMED: &str = "ALTER TABLE transfers ADD COLUMN confirmed INTEGER NOT NULL DEFAULT 0;";

/// Every signature of a lane is counted and found by its hash; variants; who kept a claim.
///
/// What bytes may be without is a height of -1 (and no hash of a block) in the columns that were
/// made when every attempt had it: to let them be NULL the file would have to copy all bodies.
const SIGNATURES: &str = "
ALTER TABLE lanes ADD COLUMN seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN seq INTEGER NOT NULL DEFAULT 0;
-- How many there are in `variants`.
ALTER TABLE attempts ADD COLUMN variants INTEGER NOT NULL DEFAULT 0;
CREATE TABLE variants (
    attempt INTEGER NOT NULL,
    number INTEGER NOT NULL,
    kind TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    opened_ms INTEGER NOT NULL,
    hash TEXT NOT NULL,
    base_block TEXT NOT NULL,
    base_height INTEGER NOT NULL,
    expires_height INTEGER NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY (attempt, number)
);
CREATE INDEX variants_hash ON variants (hash);
CREATE INDEX bodies_hash ON bodies (hash);
-- Who held a claim without an owner when it was kept; NULL if nobody did, or it is not known.
ALTER TABLE claims ADD COLUMN kept_by INTEGER;
";
