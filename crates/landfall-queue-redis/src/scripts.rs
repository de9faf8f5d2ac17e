//! The scripts: each is one atomic step on the keys of one stage.
//!
//! All keys of a script belong to one stage, so that an environment written in braces
//! (`{testnet}`) keeps them on one node of a cluster.

use redis::Script;

pub(crate) struct Scripts {
    pub push: Script,
    pub tend: Script,
    pub aside: Script,
    pub groom: Script,
    pub depth: Script,
}

impl Scripts {
    pub fn new() -> Scripts {
        Scripts {
            push: Script::new(include_str!("scripts/push.lua")),
            tend: Script::new(include_str!("scripts/tend.lua")),
            aside: Script::new(include_str!("scripts/aside.lua")),
            groom: Script::new(include_str!("scripts/groom.lua")),
            depth: Script::new(include_str!("scripts/depth.lua")),
        }
    }
}
