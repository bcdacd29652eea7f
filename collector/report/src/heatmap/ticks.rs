//! Ticks of axes: round values, as many as fit.

/// Returns at most `most` round values from 0 to at least `top`. The last is the end of the axis. `top` must be above
/// 0.
pub fn ticks(top: f64, most: usize) -> Vec<f64> {
    let rough = top / most.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(10.0 * power);
    let count = (top / step - 1e-9).ceil().max(1.0) as usize;
    (0..=count).map(|at| at as f64 * step).collect()
}

/// Returns about `most` round values between `low` and `high`, for an axis that does not start at 0. `low` must be
/// below `high`.
pub fn ticks_between(low: f64, high: f64, most: usize) -> Vec<f64> {
    let step = match ticks(high - low, most).get(1) {
        Some(step) if step.is_finite() && *step > 0.0 => *step,
        _ => return Vec::new(),
    };
    let first = (low / step).ceil();
    let count = (high / step - first + 1e-9).floor().max(-1.0) as usize;
    // Adding steps would not give an exact zero.
    (0..=count)
        .map(|at| (first + at as f64) * step)
        .filter(|tick| (low..=high).contains(tick))
        .collect()
}

/// Returns the distance between labelled items of `count`: 1, 2, 5, 10, 20, …. Labels of `label` pixels do not touch if
/// items are `item` pixels wide.
pub fn label_every(count: usize, item: f64, label: f64) -> usize {
    let mut every = 1;
    let mut factors = [2, 5, 10].into_iter().cycle();
    let mut power = 1;
    while (every as f64) * item < label && every < count.max(1) {
        let factor = factors.next().unwrap_or(10);
        every = factor * power;
        if factor == 10 {
            power *= 10;
        }
    }
    every
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_cover_the_top() {
        assert_eq!(ticks(98.0, 5), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(ticks(100.0, 4), [0.0, 50.0, 100.0]);
        assert_eq!(ticks(0.003, 3).len(), 4);
        for top in [1.0, 7.0, 1234.5, 9.99e8] {
            let ticks = ticks(top, 5);
            assert!(
                ticks.len() <= 7 && *ticks.last().expect("one") >= top,
                "{top}: {ticks:?}"
            );
        }
    }

    #[test]
    fn ticks_between_two_values_are_inside() {
        assert_eq!(ticks_between(41.0, 58.0, 4), [45.0, 50.0, 55.0]);
        assert_eq!(ticks_between(-0.25, 0.25, 5), [-0.2, -0.1, 0.0, 0.1, 0.2]);
        assert!(ticks_between(1.0, 1.0, 4).is_empty());
    }

    #[test]
    fn labels_do_not_overlap() {
        assert_eq!(label_every(10, 30.0, 25.0), 1);
        assert_eq!(label_every(100, 6.0, 25.0), 5);
        assert_eq!(label_every(1000, 1.0, 30.0), 50);
        assert_eq!(label_every(1000, 1.0, 90.0), 100);
    }
}
