//! Random pauses between attempts of concurrent processes, so that they do not collide again.

use rankscope_analysis::model::fingerprint::fnv;
use std::time::{Duration, SystemTime};

/// Smallest and largest limit of a pause.
const LIMITS: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(250));

/// Returns a random pause. Its limit doubles with each attempt.
pub fn pause(attempt: u32) -> Duration {
    let limit = LIMITS.0.saturating_mul(1 << attempt.min(10)).min(LIMITS.1);
    let seed = format!(
        "{} {:?} {:?}",
        std::process::id(),
        std::thread::current().id(),
        SystemTime::now()
    );
    limit.mul_f64((fnv(seed.as_bytes()) >> 11) as f64 / (1u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_have_a_limit() {
        assert!((0..100).all(|attempt| pause(attempt) <= LIMITS.1));
    }
}
