//! Round times for the marks of the ruler.

use crate::model::Window;

/// Returns the usual distances of marks, in nanoseconds.
fn steps() -> impl Iterator<Item = i64> {
    let decimal = (0..10).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_i64.pow(power)));
    // From ten seconds on: minutes and hours instead of thousands of seconds.
    let long = [
        10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400, 43_200, 86_400, 172_800, 864_000,
    ];
    decimal
        .filter(|&step| step <= 5_000_000_000)
        .chain(long.into_iter().map(|seconds| seconds * 1_000_000_000))
}

/// Distances of the marks of a ruler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ruler {
    /// Distance of marks with a label, in nanoseconds.
    pub step_ns: i64,
    /// Distance of marks without a label, in nanoseconds.
    pub fine_ns: i64,
}

impl Ruler {
    /// Chooses the distances for a window of this width, with labelled marks at least `apart` points apart.
    pub fn of(window: Window, width: f32, apart: f32) -> Self {
        let least = window.length_ns() as f64 / f64::from(width.max(1.0)) * f64::from(apart);
        let step_ns = steps()
            .find(|&step| step as f64 >= least)
            .unwrap_or(8_640_000_000_000_000);
        let fine_ns = steps()
            .filter(|&step| step_ns % step == 0 && step < step_ns)
            .last();
        Self {
            step_ns,
            fine_ns: fine_ns.unwrap_or(step_ns),
        }
    }

    /// Returns the marks of a window at a distance. Their number is limited to what can be visible.
    pub fn moments(window: Window, step_ns: i64) -> impl Iterator<Item = i64> {
        let step_ns = step_ns.max(1);
        let first = window.from_ns.div_euclid(step_ns) + i64::from(window.from_ns.rem_euclid(step_ns) != 0);
        (0..4000)
            .map(move |number| (first + number).saturating_mul(step_ns))
            .take_while(move |&ns| ns < window.to_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_fit_the_width() {
        for (length, step) in [
            (100_i64, 10_i64),
            (1_000_000, 100_000),
            (3_000_000_000, 500_000_000),
            (3_600_000_000_000, 600_000_000_000),
        ] {
            let window = Window::between(7, 7 + length);
            let ruler = Ruler::of(window, 1000.0, 90.0);
            assert!(ruler.step_ns as f64 / length as f64 * 1000.0 >= 90.0);
            assert!(
                ruler.step_ns <= 3 * step && ruler.step_ns % ruler.fine_ns == 0,
                "{ruler:?}"
            );
            let moments: Vec<i64> = Ruler::moments(window, ruler.step_ns).collect();
            assert!((2..13).contains(&moments.len()), "{moments:?}");
            assert!(
                moments
                    .iter()
                    .all(|ns| ns % ruler.step_ns == 0 && window.touches(*ns, *ns))
            );
        }
    }
}
