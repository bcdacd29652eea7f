//! Distributions and corrections for many comparisons. The distributions are those of `statrs`.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// Student's t distribution. With very many degrees of freedom it is replaced by the normal distribution.
#[derive(Clone, Copy, Debug)]
pub enum T {
    /// Student's t distribution.
    Student(StudentsT),
    /// Normal distribution.
    Normal(Normal),
}

impl T {
    /// Creates the distribution with these degrees of freedom; `None` unless they are above 0.
    pub fn new(degrees_of_freedom: f64) -> Option<Self> {
        // From here on the two differ by less than 1 in 10⁵. The library's own series is less accurate: it is off by a
        // tenth at 10⁹.
        const NEARLY_NORMAL: f64 = 1e5;
        if degrees_of_freedom >= NEARLY_NORMAL {
            return Normal::new(0.0, 1.0).ok().map(Self::Normal);
        }
        StudentsT::new(0.0, 1.0, degrees_of_freedom)
            .ok()
            .map(Self::Student)
    }

    /// Returns the value that is exceeded with probability `alpha`, which is at most one half.
    pub fn upper(&self, alpha: f64) -> f64 {
        // Uses the lower tail, where small probabilities keep their digits.
        match self {
            Self::Student(t) => -t.inverse_cdf(alpha),
            Self::Normal(normal) => -normal.inverse_cdf(alpha),
        }
    }

    /// Returns the probability of a value at least as far from 0, on either side.
    pub fn two_sided(&self, value: f64) -> f64 {
        let below = match self {
            Self::Student(t) => t.cdf(-value.abs()),
            Self::Normal(normal) => normal.cdf(-value.abs()),
        };
        (2.0 * below).min(1.0)
    }
}

/// Returns the pooled variance within groups, and its degrees of freedom; `None` if no group has two values.
pub fn pooled_variance<'a>(groups: impl Iterator<Item = &'a [f64]>) -> Option<(f64, f64)> {
    let mut squares = 0.0;
    let mut degrees = 0;
    for group in groups.filter(|group| group.len() > 1) {
        let centre = mean(group);
        squares += group.iter().map(|value| (value - centre).powi(2)).sum::<f64>();
        degrees += group.len() - 1;
    }
    (degrees > 0).then(|| (squares / degrees as f64, degrees as f64))
}

/// Returns the mean; NaN without values.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns the degrees of freedom of a sum of variances, each with its own (Satterthwaite 1946).
pub fn satterthwaite(parts: &[(f64, f64)]) -> f64 {
    let sum: f64 = parts.iter().map(|(variance, _)| variance).sum();
    let spread: f64 = parts
        .iter()
        .map(|(variance, degrees)| variance.powi(2) / degrees)
        .sum();
    if spread > 0.0 {
        sum.powi(2) / spread
    } else {
        parts
            .iter()
            .map(|(_, degrees)| *degrees)
            .fold(f64::INFINITY, f64::min)
    }
}

/// Returns the smallest false-discovery rate at which each value would be called a discovery (Benjamini and Hochberg
/// 1995).
pub fn false_discovery(p_values: &[f64]) -> Vec<f64> {
    let count = p_values.len();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&one, &other| p_values[other].total_cmp(&p_values[one]));
    let mut adjusted = vec![1.0; count];
    let mut smallest = 1.0_f64;
    for (from_last, &at) in order.iter().enumerate() {
        let rank = count - from_last;
        smallest = smallest.min(p_values[at] * count as f64 / rank as f64);
        adjusted[at] = smallest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_equal_the_tables() {
        // One-sided critical values from scipy 1.x `stats.t.isf`; the last from a table of the normal distribution.
        for (degrees, alpha, value) in [
            (1.0, 0.05, 6.313_751_515),
            (1.0, 0.000_1, 3_183.098_757_118),
            (2.5, 1.0 / 300.0, 8.468_931_752),
            (8.0, 0.005, 3.355_387_331),
            (8.0, 1.0 / 300.0, 3.631_899_911),
            (40.0, 0.000_1, 4.094_207_103),
            (1_000.0, 0.005, 2.580_754_698),
            (20_000.0, 1.0 / 300.0, 2.713_335_452),
            (99_999.0, 0.000_1, 3.719_154_384),
            (1e9, 0.025, 1.959_963_985),
        ] {
            let found = T::new(degrees).expect("degrees").upper(alpha);
            assert!((found / value - 1.0).abs() < 2e-5, "{degrees} {alpha}: {found}");
        }
        let t = T::new(8.0).expect("degrees");
        assert!((t.two_sided(t.upper(0.003)) - 0.006).abs() < 1e-9);
        assert!(T::new(0.0).is_none() && T::new(f64::NAN).is_none());
    }

    #[test]
    fn pooling_leaves_out_groups_without_spread() {
        let groups: [&[f64]; 3] = [&[1.0, 3.0], &[7.0], &[10.0, 11.0, 12.0]];
        assert_eq!(pooled_variance(groups.into_iter()), Some((4.0 / 3.0, 3.0)));
        assert_eq!(pooled_variance([&[1.0][..]].into_iter()), None);
        assert!((satterthwaite(&[(2.0, 4.0), (2.0, 4.0)]) - 8.0).abs() < 1e-12);
    }

    #[test]
    fn discoveries_equal_the_step_up_rule() {
        // The example of Benjamini and Hochberg (1995), section 3.2: at 5 % the four smallest of fifteen.
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719,
            0.6528, 0.7590, 1.0,
        ];
        let found = false_discovery(&p);
        assert_eq!(found.iter().filter(|&&rate| rate <= 0.05).count(), 4);
        assert!(found.is_sorted());
    }
}
