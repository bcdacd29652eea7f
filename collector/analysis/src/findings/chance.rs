//! Probability of observations by chance alone.

/// Returns the probability of `successes` or more in `trials`, each with probability `chance`.
pub fn binomial_tail(successes: u64, trials: u64, chance: f64) -> f64 {
    if successes == 0 || chance >= 1.0 {
        return 1.0;
    }
    if successes > trials || chance <= 0.0 {
        return 0.0;
    }
    let ln_choose = |k: u64| ln_factorial(trials) - ln_factorial(k) - ln_factorial(trials - k);
    let mut term = (ln_choose(successes)
        + successes as f64 * chance.ln()
        + (trials - successes) as f64 * (-chance).ln_1p())
    .exp();
    let mut sum = term;
    // Each term follows from the previous one. Beyond the mean the terms fall, and the sum ends when they are
    // negligible.
    for k in successes..trials {
        term *= (trials - k) as f64 / (k + 1) as f64 * chance / (1.0 - chance);
        sum += term;
        if term < sum * 1e-15 && k as f64 > trials as f64 * chance {
            break;
        }
    }
    sum.min(1.0)
}

/// Returns ln n!. Small values are exact sums; Stirling's series has an error below 1e-10 for the others.
fn ln_factorial(n: u64) -> f64 {
    if n < 32 {
        return (2..=n).map(|k| (k as f64).ln()).sum();
    }
    let x = n as f64 + 1.0;
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + 1.0 / (12.0 * x) - 1.0 / (360.0 * x * x * x)
}

/// Formats a probability.
pub fn shown_probability(p: f64) -> String {
    if p < 1e-6 {
        "below one in a million".to_owned()
    } else {
        format!("{p:.1e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_of_small_binomials_equal_the_tables() {
        assert!((binomial_tail(1, 1, 0.25) - 0.25).abs() < 1e-12);
        assert!((binomial_tail(2, 3, 0.5) - 0.5).abs() < 1e-12);
        assert!((binomial_tail(10, 10, 0.5) - 0.5f64.powi(10)).abs() < 1e-12);
        assert!((binomial_tail(50, 100, 0.5) - 0.539_794_618_693_589).abs() < 1e-9);
        assert_eq!(binomial_tail(0, 10, 0.5), 1.0);
        assert_eq!(binomial_tail(11, 10, 0.5), 0.0);
        assert!(binomial_tail(1_000_000, 1_000_000, 0.25) < 1e-300);
    }
}
