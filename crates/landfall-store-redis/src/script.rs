//! The scripts, each one commit: found by their hash, sent in full only when the server lacks them.
//!
//! A script is its own file after those it shares (`scripts/common.lua`, `scripts/moves.lua`,
//! `scripts/signing.lua`) and after what the machines tell (`codes::lua`).

use std::sync::LazyLock;

use redis::Cmd;

use crate::codes;

/// Arguments of a script, in the order its file gives.
pub(crate) type Args = Vec<Vec<u8>>;

const COMMON: &str = include_str!("scripts/common.lua");
const MOVES: &str = include_str!("scripts/moves.lua");
const SIGNING: &str = include_str!("scripts/signing.lua");
const CREATE: &str = include_str!("scripts/create.lua");

/// One script.
pub(crate) struct Script {
    source: String,
    hash: String,
}

impl Script {
    fn of(parts: &[&str]) -> Script {
        let source = parts.join("\n");
        let hash = redis::Script::new(&source).get_hash().to_owned();
        Script { source, hash }
    }

    fn plain(body: &str) -> Script {
        Script::of(&[&codes::lua(), COMMON, body])
    }

    fn moving(body: &str) -> Script {
        Script::of(&[&codes::lua(), COMMON, MOVES, body])
    }

    fn signing(body: &str) -> Script {
        Script::of(&[&codes::lua(), COMMON, MOVES, SIGNING, body])
    }

    pub(crate) fn load(&self) -> Cmd {
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(&self.source);
        command
    }

    /// A call by hash. `store` is the one key that is declared; the others have its hash tag.
    pub(crate) fn call(&self, store: &str, args: &[Vec<u8>]) -> Cmd {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.hash).arg(1).arg(store);
        for arg in args {
            command.arg(arg);
        }
        command
    }
}

/// Every script of the store.
pub(crate) struct Scripts {
    /// Makes the environment; the only one that runs before the store is known.
    pub create: Script,
    pub migrate: Script,
    pub accept: Script,
    pub apply: Script,
    pub open: Script,
    pub vary: Script,
    pub settle: Script,
    pub sight: Script,
    pub claim: Script,
    pub sweep: Script,
    pub lease: Script,
    pub renew: Script,
    pub release: Script,
    pub start: Script,
    pub halt: Script,
    pub adopt: Script,
}

pub(crate) static SCRIPTS: LazyLock<Scripts> = LazyLock::new(|| Scripts {
    create: Script::of(&[CREATE]),
    migrate: Script::plain(include_str!("scripts/migrate.lua")),
    accept: Script::plain(include_str!("scripts/accept.lua")),
    apply: Script::moving(include_str!("scripts/apply.lua")),
    open: Script::signing(include_str!("scripts/open.lua")),
    vary: Script::signing(include_str!("scripts/vary.lua")),
    settle: Script::moving(include_str!("scripts/settle.lua")),
    sight: Script::moving(include_str!("scripts/sight.lua")),
    claim: Script::plain(include_str!("scripts/claim.lua")),
    sweep: Script::plain(include_str!("scripts/sweep.lua")),
    lease: Script::plain(include_str!("scripts/lease.lua")),
    renew: Script::plain(include_str!("scripts/renew.lua")),
    release: Script::plain(include_str!("scripts/release.lua")),
    start: Script::plain(include_str!("scripts/start.lua")),
    halt: Script::plain(include_str!("scripts/halt.lua")),
    adopt: Script::plain(include_str!("scripts/adopt.lua")),
});

impl Scripts {
    pub(crate) fn all(&self) -> [&Script; 16] {
        [
            &self.create,
            &self.migrate,
            &self.accept,
            &self.apply,
            &self.open,
            &self.vary,
            &self.settle,
            &self.sight,
            &self.claim,
            &self.sweep,
            &self.lease,
            &self.renew,
            &self.release,
            &self.start,
            &self.halt,
            &self.adopt,
        ]
    }
}
