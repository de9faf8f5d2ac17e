//! What a measured run says, as a table and as JSON.

use serde_json::{Value, json};

/// The figures of a run.
#[derive(Debug, Clone, Default)]
pub struct Report {
    pub accepted_per_s: f64,
    pub completed_per_s: f64,
    pub accept_p50_ms: f64,
    pub accept_p99_ms: f64,
    pub rpc_calls_per_transfer: f64,
    pub relay_cpu_us_per_transfer: f64,
    pub relay_peak_rss_mb: f64,
    pub duplicates: u64,
    pub losses: u64,
}

impl Report {
    /// Nothing was paid twice and nothing was lost.
    pub fn is_good(&self) -> bool {
        self.duplicates == 0 && self.losses == 0
    }

    pub fn json(&self) -> Value {
        json!({
            "accepted_per_s": rounded(self.accepted_per_s, 1),
            "completed_per_s": rounded(self.completed_per_s, 1),
            "accept_p50_ms": rounded(self.accept_p50_ms, 3),
            "accept_p99_ms": rounded(self.accept_p99_ms, 3),
            "rpc_calls_per_transfer": rounded(self.rpc_calls_per_transfer, 4),
            "relay_cpu_us_per_transfer": rounded(self.relay_cpu_us_per_transfer, 1),
            "relay_peak_rss_mb": rounded(self.relay_peak_rss_mb, 1),
            "duplicates": self.duplicates,
            "losses": self.losses,
        })
    }

    pub fn table(&self) -> String {
        let rows = [
            ("accepted per second", format!("{:.0}", self.accepted_per_s)),
            ("completed per second", format!("{:.0}", self.completed_per_s)),
            ("accept latency, p50", format!("{:.2} ms", self.accept_p50_ms)),
            ("accept latency, p99", format!("{:.2} ms", self.accept_p99_ms)),
            ("RPC calls per transfer", format!("{:.4}", self.rpc_calls_per_transfer)),
            ("relay CPU per transfer", format!("{:.0} µs", self.relay_cpu_us_per_transfer)),
            ("relay peak memory", format!("{:.0} MB", self.relay_peak_rss_mb)),
            ("duplicates", self.duplicates.to_string()),
            ("losses", self.losses.to_string()),
        ];
        rows.map(|(name, figure)| format!("  {name:<24}{figure:>14}\n")).concat()
    }
}

/// The figures of transfers between services.
#[derive(Debug, Clone, Copy, Default)]
pub struct Moves {
    /// Until the last one is final.
    pub transfers_per_s: f64,
    pub committed_in_request_share: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    /// Everything is final, and the services' statements say the same as the store.
    pub conservation_ok: bool,
}

impl Moves {
    pub fn json(&self) -> Value {
        json!({
            "transfers_per_s": rounded(self.transfers_per_s, 1),
            "committed_in_request_share": rounded(self.committed_in_request_share, 4),
            "p50_ms": rounded(self.p50_ms, 3),
            "p99_ms": rounded(self.p99_ms, 3),
            "conservation_ok": self.conservation_ok,
        })
    }

    pub fn table(&self) -> String {
        let share = 100.0 * self.committed_in_request_share;
        let rows = [
            ("transfers per second", format!("{:.0}", self.transfers_per_s)),
            ("committed in the request", format!("{share:.2} %")),
            ("request latency, p50", format!("{:.2} ms", self.p50_ms)),
            ("request latency, p99", format!("{:.2} ms", self.p99_ms)),
            ("funds conserved", if self.conservation_ok { "yes" } else { "NO" }.to_owned()),
        ];
        rows.map(|(name, figure)| format!("  {name:<26}{figure:>14}\n")).concat()
    }
}

/// The figures of calls on an EVM chain.
#[derive(Debug, Clone, Copy, Default)]
pub struct Calls {
    pub signers: u64,
    pub accepted_per_s: f64,
    /// Until the last one is final.
    pub confirmed_per_s: f64,
    /// The same of what the node takes without a relay.
    pub raw_per_s: f64,
    pub accept_p50_ms: f64,
    pub accept_p99_ms: f64,
    pub rpc_calls_per_transfer: f64,
    pub relay_cpu_us_per_transfer: f64,
    pub relay_peak_rss_mb: f64,
    pub duplicates: u64,
    pub losses: u64,
}

impl Calls {
    /// Nothing was called twice and nothing was lost.
    pub fn is_good(&self) -> bool {
        self.duplicates == 0 && self.losses == 0
    }

    pub fn json(&self) -> Value {
        json!({
            "signers": self.signers,
            "accepted_per_s": rounded(self.accepted_per_s, 1),
            "confirmed_per_s": rounded(self.confirmed_per_s, 1),
            "raw_per_s": rounded(self.raw_per_s, 1),
            "accept_p50_ms": rounded(self.accept_p50_ms, 3),
            "accept_p99_ms": rounded(self.accept_p99_ms, 3),
            "rpc_calls_per_transfer": rounded(self.rpc_calls_per_transfer, 4),
            "relay_cpu_us_per_transfer": rounded(self.relay_cpu_us_per_transfer, 1),
            "relay_peak_rss_mb": rounded(self.relay_peak_rss_mb, 1),
            "duplicates": self.duplicates,
            "losses": self.losses,
        })
    }

    pub fn table(&self) -> String {
        let share = 100.0 * self.confirmed_per_s / self.raw_per_s.max(0.001);
        let rows = [
            ("signers", self.signers.to_string()),
            ("accepted per second", format!("{:.0}", self.accepted_per_s)),
            ("confirmed per second", format!("{:.0}", self.confirmed_per_s)),
            ("the node alone, per second", format!("{:.0}", self.raw_per_s)),
            ("of that, by the relay", format!("{share:.0} %")),
            ("accept latency, p50", format!("{:.2} ms", self.accept_p50_ms)),
            ("accept latency, p99", format!("{:.2} ms", self.accept_p99_ms)),
            ("RPC calls per transfer", format!("{:.4}", self.rpc_calls_per_transfer)),
            ("relay CPU per transfer", format!("{:.0} µs", self.relay_cpu_us_per_transfer)),
            ("relay peak memory", format!("{:.0} MB", self.relay_peak_rss_mb)),
            ("duplicates", self.duplicates.to_string()),
            ("losses", self.losses.to_string()),
        ];
        rows.map(|(name, figure)| format!("  {name:<28}{figure:>12}\n")).concat()
    }
}

fn rounded(figure: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (figure * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_has_exactly_the_promised_fields() {
        let json = Report::default().json();
        let names: Vec<&str> =
            json.as_object().expect("an object").keys().map(String::as_str).collect();
        let mut promised = [
            "accepted_per_s",
            "completed_per_s",
            "accept_p50_ms",
            "accept_p99_ms",
            "rpc_calls_per_transfer",
            "relay_cpu_us_per_transfer",
            "relay_peak_rss_mb",
            "duplicates",
            "losses",
        ];
        promised.sort_unstable();
        let mut names = names;
        names.sort_unstable();
        assert_eq!(names, promised);
    }

    #[test]
    fn the_json_of_moves_has_exactly_the_promised_fields() {
        let json = Moves::default().json();
        let names: Vec<&str> =
            json.as_object().expect("an object").keys().map(String::as_str).collect();
        let mut promised = [
            "transfers_per_s",
            "committed_in_request_share",
            "p50_ms",
            "p99_ms",
            "conservation_ok",
        ];
        promised.sort_unstable();
        let mut names = names;
        names.sort_unstable();
        assert_eq!(names, promised);
    }

    #[test]
    fn the_json_of_calls_has_the_promised_fields() {
        let json = Calls::default().json();
        let promised = [
            "accepted_per_s",
            "confirmed_per_s",
            "raw_per_s",
            "rpc_calls_per_transfer",
            "relay_cpu_us_per_transfer",
            "duplicates",
            "losses",
        ];
        assert_eq!(promised.iter().find(|name| json[**name].is_null()), None);
        assert!(Calls::default().is_good());
        assert!(!Calls { losses: 1, ..Calls::default() }.is_good());
    }

    #[test]
    fn a_duplicate_or_a_loss_makes_a_run_bad() {
        assert!(Report::default().is_good());
        assert!(!Report { duplicates: 1, ..Report::default() }.is_good());
        assert!(!Report { losses: 1, ..Report::default() }.is_good());
    }
}
