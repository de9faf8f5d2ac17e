//! When to try again: exponential backoff with jitter and a cap, counted per stage.

use landfall_core::rail::Backoff;
use rand::Rng;

use crate::settings::Settings;

/// The wait before try number `retries + 1`: doubles each time, then drawn from its upper half so
/// that those who failed together do not return together.
pub fn backoff_ms(backoff: Backoff, retries: u32, rng: &mut impl Rng) -> u64 {
    let capped = doubled(backoff.first_ms, retries, backoff.max_ms);
    rng.random_range(capped.div_ceil(2)..=capped)
}

/// How long a rail that serves nobody waits before its next probe, after so many pauses.
pub fn pause_ms(settings: &Settings, pauses: u32) -> u64 {
    doubled(settings.pause_ms, pauses, settings.pause_max_ms)
}

/// How long a member waits that failed alone, after so many tries before. No jitter: those who
/// failed together were not alone.
pub fn aside_ms(settings: &Settings, tries: u32) -> u64 {
    doubled(settings.aside_ms, tries, settings.aside_max_ms)
}

fn doubled(first_ms: u64, times: u32, max_ms: u64) -> u64 {
    first_ms.saturating_mul(1 << times.min(20)).min(max_ms).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    #[test]
    fn waits_double_with_jitter_up_to_the_cap() {
        let backoff = Backoff { first_ms: 100, max_ms: 1_000 };
        let mut rng = StdRng::seed_from_u64(1);
        for (retries, most) in [(0, 100), (1, 200), (2, 400), (3, 800), (4, 1_000), (40, 1_000)] {
            for _ in 0..100 {
                let wait = backoff_ms(backoff, retries, &mut rng);
                assert!((most / 2..=most).contains(&wait), "{retries}: {wait}");
            }
        }
    }
}
