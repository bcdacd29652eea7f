//! Footnotes for unknown values. An unknown value is shown as "–" with a small number, and the reason is listed below.

use super::figures::quoted;
use super::prose::Prose;
use rankscope_formats::session::Figure;

/// Reasons so far, without duplicates.
#[derive(Debug, Default)]
pub struct Reasons {
    listed: Vec<Prose>,
}

impl Reasons {
    /// Formats a figure with `show`, which receives the source of the value, or a dash with a reference to its reason.
    /// `from` is the source of the figure.
    pub fn figure<T, P: Into<Prose>>(
        &mut self,
        figure: &Figure<T>,
        from: &str,
        show: impl FnOnce(&T, String) -> P,
    ) -> Prose {
        match (figure.get(), &figure.reason) {
            (Ok(value), _) => show(value, format!("{from}/value")).into(),
            (Err(_), Some(reason)) => self.dash(quoted(reason, format!("{from}/reason"))),
            (Err(reason), None) => self.dash(reason),
        }
    }

    /// Like [`Self::figure`], without sources, for a terminal.
    pub fn plain<T>(&mut self, figure: &Figure<T>, show: impl FnOnce(&T) -> String) -> String {
        self.figure(figure, "", |value, _| show(value)).plain()
    }

    /// Returns a dash with a reference to a reason.
    pub fn dash(&mut self, reason: impl Into<Prose>) -> Prose {
        let reason = reason.into();
        let plain = reason.plain();
        let number = match self.listed.iter().position(|known| known.plain() == plain) {
            Some(at) => at + 1,
            None => {
                self.listed.push(reason);
                self.listed.len()
            }
        };
        format!("–{}", superscript(number)).into()
    }

    /// Returns the numbers and reasons, in order.
    pub fn notes(&self) -> impl Iterator<Item = (String, &Prose)> {
        self.listed
            .iter()
            .enumerate()
            .map(|(at, reason)| (superscript(at + 1), reason))
    }
}

fn superscript(number: usize) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    number
        .to_string()
        .bytes()
        .map(|byte| DIGITS[usize::from(byte - b'0') % 10])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_listed_once() {
        let mut reasons = Reasons::default();
        let unknown: Figure<u32> = Figure::unknown("no steps");
        assert_eq!(reasons.plain(&unknown, u32::to_string), "–¹");
        assert_eq!(reasons.dash("no clock").plain(), "–²");
        assert_eq!(reasons.plain(&unknown, u32::to_string), "–¹");
        assert_eq!(reasons.plain(&Figure::known(7), u32::to_string), "7");
        assert_eq!(reasons.notes().count(), 2);
    }
}
