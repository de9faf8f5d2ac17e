//! How far the torture has come: a bar on a terminal, a line now and then elsewhere.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use landfall_core::guard::Guard;

use super::Sum;

/// Columns of the bar.
const WIDTH: f64 = 30.0;
/// Between two lines where nobody looks on.
const LINE_EVERY: Duration = Duration::from_secs(30);
const HOUR_MS: f64 = 3_600_000.0;

pub struct Progress {
    terminal: bool,
    seeds: Option<u64>,
    minutes: Option<u64>,
    next_line: Duration,
    drawn: bool,
}

impl Progress {
    pub fn new(seeds: Option<u64>, minutes: Option<u64>) -> Progress {
        let terminal = std::io::stderr().is_terminal();
        Progress { terminal, seeds, minutes, next_line: LINE_EVERY, drawn: false }
    }

    /// Part of the whole that is done: by seeds or by time, whichever is further.
    fn part(&self, sum: &Sum, since: Duration) -> f64 {
        let by_seeds = self.seeds.map(|seeds| sum.seeds as f64 / seeds.max(1) as f64);
        let by_time =
            self.minutes.map(|minutes| since.as_secs_f64() / (minutes.max(1) as f64 * 60.0));
        by_seeds.unwrap_or(0.0).max(by_time.unwrap_or(0.0)).min(1.0)
    }

    pub fn at(&mut self, sum: &Sum, since: Duration) {
        let part = self.part(sum, since);
        let text = format!(
            "{} seeds, {:.1}/s, {:.1} simulated hours, {} of {} guards met",
            sum.seeds,
            sum.seeds as f64 / since.as_secs_f64().max(0.001),
            sum.simulated_ms as f64 / HOUR_MS,
            Guard::ALL.len() - sum.never_met().len(),
            Guard::ALL.len()
        );
        // Progress that cannot be shown is no reason to stop.
        if self.terminal {
            let filled = (part * WIDTH) as usize;
            let (bar, rest) = ("█".repeat(filled), " ".repeat(WIDTH as usize - filled));
            let _ = write!(std::io::stderr(), "\r▕{bar}{rest}▏ {text}\x1b[K");
            let _ = std::io::stderr().flush();
            self.drawn = true;
        } else if since >= self.next_line {
            self.next_line = since + LINE_EVERY;
            let _ = writeln!(std::io::stderr(), "{:3.0} %  {text}", part * 100.0);
        }
    }

    pub fn end(&self) {
        if self.drawn {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_done_is_by_seeds_or_time_whichever_is_further() {
        let part = |seeds, minutes, done, seconds| {
            let progress = Progress::new(seeds, minutes);
            let sum = Sum { seeds: done, ..Sum::default() };
            progress.part(&sum, Duration::from_secs(seconds))
        };
        assert_eq!(part(Some(10), None, 5, 9_999), 0.5);
        assert_eq!(part(None, Some(1), 5, 15), 0.25);
        assert_eq!(part(Some(10), Some(1), 1, 30), 0.5);
        assert_eq!(part(Some(10), Some(1), 10, 90), 1.0);
    }
}
