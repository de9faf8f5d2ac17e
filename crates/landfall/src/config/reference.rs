//! The reference of all settings, made from their one list.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::settings::{SECTIONS, SETTINGS};
use super::table::Setting;

const HEAD: &str = "\
# Configuration

<!-- Made by `cargo xtask docs` from crates/landfall/src/config/settings.rs; do not edit. -->

Landfall reads one TOML file (`--config FILE`, the variable `LANDFALL_CONFIG`, or `landfall.toml` in
the working folder if there is one) and the environment. A flag beats a `LANDFALL_…` variable, that
beats a variable of the relay Landfall replaces (last column), that beats the file, that beats the
default. An empty variable counts as not set.

Lists are lists in the file; in a variable they are JSON arrays or separated by commas. All mistakes
are told at once, each with its file and line (or variable) and its remedy; unknown names are
mistakes. `landfall check` reads the configuration and then tries the connections. Secrets are never
logged, shown in errors or given out by the API.

```toml
[api]
listen = \"0.0.0.0:3000\"
keys = [{ key = \"a long random text\", tenant = \"acme\", scopes = [\"submit\", \"read\"] }]

[near]
rpc_urls = [\"https://rpc.testnet.near.org\"]
network = \"testnet\"
token = \"token.testnet\"
relay_account = \"relay.testnet\"
access_keys_file = \"/etc/landfall/keys\"
```
";

/// `docs/configuration.md`.
pub fn markdown() -> String {
    let mut page = HEAD.to_owned();
    for (section, about) in SECTIONS {
        let about = about.trim();
        let _ = write!(
            page,
            "\n## [{section}]\n\n{about}\n\n| setting | type | default | variable | why | also |\n\
             |---|---|---|---|---|---|\n"
        );
        for setting in SETTINGS.iter().filter(|setting| setting.section == *section) {
            let _ = writeln!(
                page,
                "| `{}` | {} | {} | `{}` | {} | {} |",
                setting.key,
                kind(setting),
                code(setting.default),
                setting.variable(),
                setting.reason_line().replace('|', "\\|"),
                setting.seeds.iter().map(|seed| code(seed)).collect::<Vec<_>>().join(" "),
            );
        }
    }
    page
}

/// The same for programs.
pub fn json() -> Value {
    let one = |setting: &Setting| {
        json!({
            "setting": setting.name(),
            "type": kind(setting),
            "default": setting.default,
            "variable": setting.variable(),
            "also": setting.seeds,
            "reason": setting.reason_line(),
        })
    };
    SETTINGS.iter().map(one).collect()
}

fn kind(setting: &Setting) -> String {
    match setting.range {
        Some((least, most)) => format!("{}, {least} to {most}", setting.kind),
        None => setting.kind.to_owned(),
    }
}

fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}
