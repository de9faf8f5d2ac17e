//! When to try again: exponential backoff with jitter and a cap, counted per stage.

use landfall_core::Stage;
use landfall_core::machine::AttemptStages;
use rand::Rng;

use crate::settings::Settings;

/// The wait before try number `retries + 1`: doubles each time, then drawn from its upper half so
/// that those who failed together do not return together.
pub fn backoff_ms(settings: &Settings, retries: u32, rng: &mut impl Rng) -> u64 {
    let doubled = settings.backoff_ms.saturating_mul(1 << retries.min(20));
    let capped = doubled.min(settings.backoff_max_ms).max(1);
    rng.random_range(capped.div_ceil(2)..=capped)
}

/// How many charged failures a stage allows.
pub fn retries_of(settings: &Settings, stages: AttemptStages, stage: Option<Stage>) -> u32 {
    match stage {
        Some(stage) if stage == stages.prepare => settings.registration_retries,
        Some(stage) if stage == stages.verify => settings.verification_retries,
        _ => settings.transfer_retries,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    #[test]
    fn waits_double_with_jitter_up_to_the_cap() {
        let settings = Settings { backoff_ms: 100, backoff_max_ms: 1_000, ..Settings::default() };
        let mut rng = StdRng::seed_from_u64(1);
        for (retries, most) in [(0, 100), (1, 200), (2, 400), (3, 800), (4, 1_000), (40, 1_000)] {
            for _ in 0..100 {
                let wait = backoff_ms(&settings, retries, &mut rng);
                assert!((most / 2..=most).contains(&wait), "{retries}: {wait}");
            }
        }
    }
}
