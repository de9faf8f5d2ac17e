//! What the server must be set to, so that a commit which was answered is never forgotten.
//!
//! Asked on every new connection: behind a name there may be another server after a failover.

use std::collections::HashMap;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use crate::fault::Done;
use crate::open::OpenError;

/// Which of the two it is; they differ in the names of a few settings only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flavour {
    MariaDb,
    MySql,
}

impl Flavour {
    fn name(self) -> &'static str {
        match self {
            Flavour::MariaDb => "MariaDB",
            Flavour::MySql => "MySQL",
        }
    }

    /// The first release that has all we use (`SKIP LOCKED`, counters that survive a restart).
    fn oldest(self) -> (u16, u16) {
        match self {
            Flavour::MariaDb => (10, 6),
            Flavour::MySql => (8, 0),
        }
    }
}

/// A server's settings, as far as they matter here.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub flavour: Flavour,
    version: (u16, u16),
    /// What lies between two ids given to rows of one statement.
    pub id_step: u64,
    values: HashMap<String, String>,
}

/// A setting, the values that are safe, and why the others are not.
struct Rule {
    name: &'static str,
    safe: &'static [&'static str],
    remedy: &'static str,
    /// The rule counts only while the binary log is on.
    with_binary_log: bool,
}

const RULES: &[Rule] = &[
    Rule {
        name: "innodb_flush_log_at_trx_commit",
        safe: &["1", "3"],
        remedy: "set it to 1: otherwise a crash forgets commits that were answered",
        with_binary_log: false,
    },
    Rule {
        name: "innodb_doublewrite",
        safe: &["ON", "1", "DETECT_AND_RECOVER", "fast"],
        remedy: "set it to ON: otherwise a crash can leave half-written pages",
        with_binary_log: false,
    },
    Rule {
        name: "sync_binlog",
        safe: &["1"],
        remedy: "set it to 1, or switch the binary log off: otherwise a crash forgets commits that \
                 were answered",
        with_binary_log: true,
    },
    Rule {
        name: "binlog_format",
        safe: &["ROW", "MIXED"],
        remedy: "set it to ROW: statements do not replay the same at READ COMMITTED",
        with_binary_log: true,
    },
    Rule {
        name: "wsrep_on",
        safe: &["OFF", "0"],
        remedy: "connect to a server outside the Galera cluster: its nodes do not share row locks, \
                 and each may answer from the past",
        with_binary_log: false,
    },
    Rule {
        name: "innodb_redo_log_enabled",
        safe: &["ON"],
        remedy: "run ALTER INSTANCE ENABLE INNODB REDO_LOG",
        with_binary_log: false,
    },
];

/// Settings under which nothing can be written at all.
const READ_ONLY: [&str; 3] = ["read_only", "super_read_only", "innodb_read_only"];

fn is_on(value: &str) -> bool {
    // MariaDB 12 has more ways than one of not taking writes.
    !matches!(value.to_ascii_uppercase().as_str(), "OFF" | "0" | "")
}

impl Settings {
    pub(crate) async fn read(conn: &mut Conn) -> Done<Settings> {
        let names: Vec<String> = RULES
            .iter()
            .map(|rule| rule.name)
            .chain(READ_ONLY)
            .chain(["log_bin", "auto_increment_increment", "version"])
            .map(|name| format!("'{name}'"))
            .collect();
        let names = names.join(",");
        let mut values = HashMap::new();
        for what in ["SESSION VARIABLES", "GLOBAL STATUS"] {
            let sql = format!("SHOW {what} WHERE Variable_name IN ({names})");
            for (name, value) in conn.query::<(String, String), _>(sql).await? {
                values.insert(name.to_ascii_lowercase(), value);
            }
        }
        let version = values.get("version").cloned().unwrap_or_default();
        let flavour = if version.contains("MariaDB") { Flavour::MariaDb } else { Flavour::MySql };
        let id_step = values.get("auto_increment_increment").and_then(|step| step.parse().ok());
        let mut numbers = version.split(['.', '-']).map(|part| part.parse().unwrap_or(0));
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        Ok(Settings { flavour, version, id_step: id_step.unwrap_or(1), values })
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Says what is wrong first; `accepted` names settings that may be as they are.
    pub(crate) fn check(&self, accepted: &[String]) -> Result<(), OpenError> {
        if self.version < self.flavour.oldest() {
            let (oldest, found) = (self.flavour.oldest(), self.version);
            return Err(OpenError::TooOld {
                found: format!("{} {}.{}", self.flavour.name(), found.0, found.1),
                oldest: format!("{}.{}", oldest.0, oldest.1),
            });
        }
        for name in READ_ONLY {
            if self.value(name).is_some_and(is_on) {
                return Err(OpenError::ReadOnly { setting: name });
            }
        }
        let binary_log = self.value("log_bin").is_some_and(is_on);
        for rule in RULES.iter().filter(|rule| binary_log || !rule.with_binary_log) {
            let Some(value) = self.value(rule.name) else { continue };
            let safe = rule.safe.iter().any(|safe| safe.eq_ignore_ascii_case(value));
            if !safe && !accepted.iter().any(|name| name == rule.name) {
                return Err(OpenError::Forgetful {
                    setting: rule.name,
                    value: value.to_owned(),
                    remedy: rule.remedy,
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(values: &[(&str, &str)]) -> Settings {
        let values = values.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        Settings { flavour: Flavour::MySql, version: (8, 4), id_step: 1, values: values.collect() }
    }

    fn refusal(values: &[(&str, &str)]) -> String {
        settings(values).check(&[]).map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn a_setting_that_forgets_is_refused_with_its_remedy_unless_it_is_accepted() {
        for value in ["0", "2"] {
            let lazy = [("innodb_flush_log_at_trx_commit", value)];
            let why = refusal(&lazy);
            assert!(why.contains("set it to 1") && why.contains(value), "{why}");
            let accepted = ["innodb_flush_log_at_trx_commit".to_owned()];
            assert!(settings(&lazy).check(&accepted).is_ok());
        }
        assert!(refusal(&[("innodb_doublewrite", "OFF")]).contains("half-written"));
    }

    #[test]
    fn the_binary_log_counts_only_while_it_is_on() {
        assert_eq!(refusal(&[("log_bin", "OFF"), ("sync_binlog", "0")]), "");
        assert!(refusal(&[("log_bin", "ON"), ("sync_binlog", "0")]).contains("sync_binlog"));
        let statements = [("log_bin", "1"), ("sync_binlog", "1"), ("binlog_format", "STATEMENT")];
        assert!(refusal(&statements).contains("READ COMMITTED"));
    }

    #[test]
    fn a_server_that_takes_no_writes_is_refused() {
        assert_eq!(refusal(&[("read_only", "OFF")]), "");
        assert!(refusal(&[("super_read_only", "ON")]).contains("super_read_only"));
        assert!(refusal(&[("read_only", "NO_LOCK_NO_ADMIN")]).contains("read_only"));
    }

    #[test]
    fn an_old_server_is_refused() {
        let old = Settings { version: (5, 7), ..settings(&[]) };
        assert!(old.check(&[]).expect_err("too old").to_string().contains("MySQL 5.7"));
    }
}
