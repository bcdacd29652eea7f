//! What is not known is shown as "–" with a small number, and the number's reason stands below.

use rankscope_formats::session::Figure;

/// Reasons met so far, each once.
#[derive(Debug, Default)]
pub struct Reasons {
    listed: Vec<String>,
}

impl Reasons {
    /// The figure as `show` writes it, or a dash that points to its reason.
    pub fn figure<T>(&mut self, figure: &Figure<T>, show: impl FnOnce(&T) -> String) -> String {
        match figure.get() {
            Ok(value) => show(value),
            Err(reason) => self.dash(reason),
        }
    }

    /// A dash that points to a reason.
    pub fn dash(&mut self, reason: &str) -> String {
        let number = match self.listed.iter().position(|known| known == reason) {
            Some(at) => at + 1,
            None => {
                self.listed.push(reason.to_owned());
                self.listed.len()
            }
        };
        format!("–{}", superscript(number))
    }

    /// Number and reason, in order.
    pub fn notes(&self) -> impl Iterator<Item = (String, &str)> {
        self.listed
            .iter()
            .enumerate()
            .map(|(at, reason)| (superscript(at + 1), reason.as_str()))
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
        assert_eq!(reasons.figure(&unknown, u32::to_string), "–¹");
        assert_eq!(reasons.dash("no clock"), "–²");
        assert_eq!(reasons.figure(&unknown, u32::to_string), "–¹");
        assert_eq!(reasons.figure(&Figure::known(7), u32::to_string), "7");
        assert_eq!(reasons.notes().count(), 2);
    }
}
