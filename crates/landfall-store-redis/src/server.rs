//! Whether this server may be the truth: what it promises about what it acknowledged.
//!
//! Checked when the store is opened and again on every new connection, because a server that came
//! back may have come back with other settings, or as somebody's replica.
//! Not here: how to ask it (`link`), what it keeps (`open`).

use std::collections::HashMap;

/// The first version whose scripts may read the clock before they write, and whose append-only
/// file keeps a script's effects together.
const OLDEST_MAJOR: u32 = 7;

/// What `accept_durability` may name.
pub(crate) const ACCEPTABLE: [&str; 5] =
    ["no-aof", "everysec", "no-fsync", "no-fsync-on-rewrite", "unverified"];

const APPENDONLY_REMEDY: &str = "set `appendonly yes` and `appendfsync always` in redis.conf and \
    restart it, or run `CONFIG SET appendfsync always`, `CONFIG SET appendonly yes`, \
    `CONFIG REWRITE` and wait until INFO says aof_rewrite_in_progress:0";

/// Why a server is not taken, with the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It may forget what it acknowledged, and nobody accepted that by name.
    #[error(
        "it may forget what it has acknowledged ({what}), and a forgotten attempt may be paid \
         again: {remedy}; or accept it by name: accept_durability = [\"{name}\"]"
    )]
    Forgets { what: String, remedy: String, name: &'static str },
    #[error("it is a replica, which forgets whatever it is written: give the primary's address")]
    Replica,
    #[error(
        "it evicts keys when it is full (maxmemory-policy {policy}), and an evicted record may be \
         paid again: set `maxmemory-policy noeviction` in redis.conf, or run `CONFIG SET \
         maxmemory-policy noeviction` and `CONFIG REWRITE`"
    )]
    Evicts { policy: String },
    #[error(
        "it is a node of a Redis Cluster: one environment lives on one node, and its keys would \
         be moved between nodes; give a Redis without `cluster-enabled yes` (docs/redis.md says \
         what partitions would take)"
    )]
    Cluster,
    #[error("it is version {version}, and {OLDEST_MAJOR}.0 or later is needed: upgrade it")]
    TooOld { version: String },
}

/// What a server says of itself: `INFO`, and the settings that are not in it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    info: HashMap<String, String>,
    /// None if the server does not let us ask.
    config: Option<HashMap<String, String>>,
}

impl Facts {
    pub(crate) fn new(info: &str, config: Option<HashMap<String, String>>) -> Facts {
        let pairs = info.lines().filter_map(|line| line.trim_end().split_once(':'));
        let info = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Facts { info, config }
    }

    /// Empty if the server does not say.
    pub(crate) fn info(&self, name: &str) -> &str {
        self.info.get(name).map_or("", String::as_str)
    }

    /// Whether it still reads its log: it switches the log off for that, and says so.
    pub(crate) fn is_loading(&self) -> bool {
        self.info("loading") == "1"
    }

    /// Whether the server may be used, by what the configuration accepts.
    pub(crate) fn check(&self, accepted: &[String]) -> Result<(), Refusal> {
        let version = self.info("redis_version");
        let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        if major.is_none_or(|major| major < OLDEST_MAJOR) {
            return Err(Refusal::TooOld { version: version.to_owned() });
        }
        if self.info("cluster_enabled") == "1" {
            return Err(Refusal::Cluster);
        }
        if self.info("role") != "master" {
            return Err(Refusal::Replica);
        }
        let policy = self.info("maxmemory_policy");
        if self.info("maxmemory") != "0" && policy != "noeviction" {
            return Err(Refusal::Evicts { policy: policy.to_owned() });
        }
        let forgets = self.forgets();
        let unaccepted = |(name, _, _): &(&'static str, _, _)| !accepted.iter().any(|n| n == name);
        match forgets.into_iter().find(unaccepted) {
            Some((name, what, remedy)) => Err(Refusal::Forgets { what, remedy, name }),
            None => Ok(()),
        }
    }

    /// Every way in which it may forget: the name to accept it by, what it is, the remedy.
    fn forgets(&self) -> Vec<(&'static str, String, String)> {
        if self.info("aof_enabled") != "1" {
            let what = "appendonly no: a crash loses everything since the last snapshot";
            return vec![("no-aof", what.into(), APPENDONLY_REMEDY.into())];
        }
        let Some(config) = &self.config else {
            let what = "it does not answer CONFIG GET, so its appendfsync is unknown";
            let remedy = "allow CONFIG GET to this user (`ACL SETUSER … +config|get`), with \
                `appendfsync always` set";
            return vec![("unverified", what.into(), remedy.into())];
        };
        let mut found = Vec::new();
        let fsync = config.get("appendfsync").map_or("", String::as_str);
        if fsync != "always" {
            let name = if fsync == "everysec" { "everysec" } else { "no-fsync" };
            let remedy = "set `appendfsync always` in redis.conf, or run `CONFIG SET appendfsync \
                always` and `CONFIG REWRITE`";
            found.push((name, format!("appendfsync {fsync}"), remedy.into()));
        }
        if config.get("no-appendfsync-on-rewrite").is_some_and(|set| set == "yes") {
            let what = "no-appendfsync-on-rewrite yes: nothing is synced while it rewrites its log";
            let remedy = "set `no-appendfsync-on-rewrite no` in redis.conf, or run `CONFIG SET \
                no-appendfsync-on-rewrite no` and `CONFIG REWRITE`";
            found.push(("no-fsync-on-rewrite", what.into(), remedy.into()));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = "# Server\r\nredis_version:7.0.15\r\nrole:master\r\ncluster_enabled:0\r\n\
        maxmemory:0\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n";

    fn config(pairs: &[(&str, &str)]) -> Option<HashMap<String, String>> {
        Some(pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }

    fn always() -> Option<HashMap<String, String>> {
        config(&[("appendfsync", "always"), ("no-appendfsync-on-rewrite", "no")])
    }

    fn check(info: &str, config: Option<HashMap<String, String>>, accepted: &[&str]) -> String {
        let accepted: Vec<String> = accepted.iter().map(|name| (*name).to_owned()).collect();
        let answer = Facts::new(info, config).check(&accepted);
        answer.map_or_else(|refusal| refusal.to_string(), |()| "taken".into())
    }

    #[test]
    fn a_server_that_syncs_every_write_is_taken() {
        assert_eq!(check(SOUND, always(), &[]), "taken");
    }

    #[test]
    fn a_server_that_loads_its_log_is_waited_for() {
        let facts = |loading: &str| Facts::new(&format!("{SOUND}loading:{loading}\r\n"), None);
        assert!(facts("1").is_loading());
        assert!(!facts("0").is_loading());
        assert!(!Facts::new(SOUND, None).is_loading());
    }

    #[test]
    fn a_server_that_may_forget_is_taken_only_by_name() {
        let everysec = || config(&[("appendfsync", "everysec")]);
        let refusal = check(SOUND, everysec(), &[]);
        assert!(refusal.contains("CONFIG SET appendfsync always"), "{refusal}");
        assert!(refusal.contains("accept_durability = [\"everysec\"]"), "{refusal}");
        assert_eq!(check(SOUND, everysec(), &["everysec"]), "taken");
        assert!(check(SOUND, config(&[("appendfsync", "no")]), &["everysec"]).contains("no-fsync"));
        let no_log = SOUND.replace("aof_enabled:1", "aof_enabled:0");
        assert!(check(&no_log, always(), &["everysec"]).contains("`appendonly yes`"));
        assert_eq!(check(&no_log, always(), &["no-aof"]), "taken");
        assert!(check(SOUND, None, &[]).contains("unverified"));
        assert_eq!(check(SOUND, None, &["unverified"]), "taken");
    }

    #[test]
    fn a_rewrite_that_suspends_the_sync_is_a_way_to_forget() {
        let rewriting =
            || config(&[("appendfsync", "always"), ("no-appendfsync-on-rewrite", "yes")]);
        assert!(check(SOUND, rewriting(), &["everysec"]).contains("no-fsync-on-rewrite"));
        assert_eq!(check(SOUND, rewriting(), &["no-fsync-on-rewrite"]), "taken");
    }

    #[test]
    fn nothing_makes_a_replica_an_evicting_or_a_clustered_server_the_truth() {
        for (from, to, says) in [
            ("role:master", "role:slave", "replica"),
            ("maxmemory:0\r\nmaxmemory_policy:noeviction", "maxmemory:9", "maxmemory-policy"),
            ("cluster_enabled:0", "cluster_enabled:1", "Redis Cluster"),
            ("redis_version:7.0.15", "redis_version:6.2.1", "version 6.2.1"),
        ] {
            let refusal = check(&SOUND.replace(from, to), always(), &ACCEPTABLE);
            assert!(refusal.contains(says), "{refusal}");
        }
        let unbounded = SOUND.replace("noeviction", "allkeys-lru");
        assert_eq!(check(&unbounded, always(), &[]), "taken", "without maxmemory none is evicted");
    }
}
