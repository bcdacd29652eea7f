//! Text in which every number has a source.
//!
//! A test compares the page with `rankscope report --json` number by number. Therefore the page consists of [`Prose`]
//! instead of strings: words, and between them values [`Shown`] from the JSON, each with its [source](super::source).
//! Only the functions of [`super::figures`] turn a value into a [`Shown`]. A test finds digits from elsewhere.

/// Format of a value, which determines how it is parsed back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Nanoseconds, as `12.3 ms`.
    Time,
    /// Nanoseconds summed over ranks, as `12.3 rank-ms`.
    RankTime,
    /// Nanoseconds since 1970, as a date.
    Moment,
    /// Number, unchanged or with separated thousands.
    Number,
    /// Bytes in powers of 1000.
    Bytes,
    /// Two sizes in powers of 1024: `64–128 KiB`.
    Sizes,
    /// Bytes per second.
    Rate,
    /// A share, as `12 %`.
    Percent,
    /// A difference of two shares, as `+4.0 pp`: percentage points.
    Points,
    /// Text of the JSON, unchanged.
    Text,
    /// Part of a text of the JSON: the start of an identity, the last part of a path.
    Part,
    /// Value with its unit, as in a condition of a finding.
    Condition,
    /// Position on an axis or a scale of a picture. Not from the JSON.
    Tick,
    /// Property of the page's layout: rows left out, cells that share a position. Not from the JSON.
    Drawn,
    /// Number that is part of a definition: `at most 20 %`. Not from the JSON.
    Rule,
}

impl Form {
    /// Returns the name of the format on the page.
    pub fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::RankTime => "rank-time",
            Self::Moment => "moment",
            Self::Number => "number",
            Self::Bytes => "bytes",
            Self::Sizes => "sizes",
            Self::Rate => "rate",
            Self::Percent => "percent",
            Self::Points => "points",
            Self::Text => "text",
            Self::Part => "part",
            Self::Condition => "condition",
            Self::Tick => "tick",
            Self::Drawn => "drawn",
            Self::Rule => "rule",
        }
    }
}

/// Displayed value.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// Displayed text.
    pub text: String,
    /// Format of the text.
    pub form: Form,
    /// Source in the JSON, or empty without one.
    pub source: String,
}

/// Part of a text.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// Words without a number.
    Words(String),
    /// Value from the JSON.
    Shown(Shown),
    /// Value from the JSON that leads to another page.
    Link(Shown, Href),
}

/// Address of another page, relative to the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Href(pub String);

/// Text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prose {
    pieces: Vec<Piece>,
}

impl Prose {
    /// Appends text.
    pub fn push(&mut self, more: impl Into<Self>) {
        self.pieces.append(&mut more.into().pieces);
    }

    /// Returns the parts in order.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.pieces.iter().all(|piece| text(piece).is_empty())
    }

    /// Returns the text without sources.
    pub fn plain(&self) -> String {
        self.pieces.iter().map(text).collect()
    }

    /// Joins several texts with a separator.
    pub fn join<P: Into<Self>>(parts: impl IntoIterator<Item = P>, between: &str) -> Self {
        let mut all = Self::default();
        for (at, part) in parts.into_iter().enumerate() {
            if at > 0 {
                all.push(between);
            }
            all.push(part);
        }
        all
    }

    /// Capitalises the first letter.
    pub fn capitalised(mut self) -> Self {
        if let Some(Piece::Words(words) | Piece::Shown(Shown { text: words, .. })) = self.pieces.first_mut() {
            *words = capitalised(words);
        }
        self
    }
}

/// Capitalises the first letter, unless the sentence starts with a function name such as `cudaStreamSynchronize`.
fn capitalised(text: &str) -> String {
    let first = text.split(' ').next().unwrap_or(text);
    if first.chars().skip(1).any(char::is_uppercase) {
        return text.to_owned();
    }
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn text(piece: &Piece) -> &str {
    match piece {
        Piece::Words(words) => words,
        Piece::Shown(shown) | Piece::Link(shown, _) => &shown.text,
    }
}

impl From<&str> for Prose {
    fn from(words: &str) -> Self {
        words.to_owned().into()
    }
}

impl From<String> for Prose {
    fn from(words: String) -> Self {
        Self {
            pieces: if words.is_empty() {
                Vec::new()
            } else {
                vec![Piece::Words(words)]
            },
        }
    }
}

impl From<Shown> for Prose {
    fn from(shown: Shown) -> Self {
        Self {
            pieces: vec![Piece::Shown(shown)],
        }
    }
}

impl From<(Shown, Href)> for Prose {
    fn from((shown, href): (Shown, Href)) -> Self {
        Self {
            pieces: vec![Piece::Link(shown, href)],
        }
    }
}

impl<P: Into<Prose>> From<Option<P>> for Prose {
    fn from(part: Option<P>) -> Self {
        part.map_or_else(Self::default, Into::into)
    }
}

/// Concatenates words and figures.
macro_rules! prose {
    ($($part:expr),* $(,)?) => {{
        let mut prose = $crate::prose::Prose::default();
        $(prose.push($part);)*
        prose
    }};
}
pub(crate) use prose;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{count, quoted};

    #[test]
    fn a_text_reads_as_its_parts() {
        let text = prose!["only ", count(1_024, "/ranks_seen"), None::<&str>, " seen"];
        assert_eq!(text.plain(), "only 1,024 seen");
        assert_eq!(text.pieces().len(), 3);
        assert!(prose!["", None::<&str>].is_empty());
        assert_eq!(Prose::join(["a", "b"], ", ").plain(), "a, b");
    }

    #[test]
    fn sentences_begin_with_a_capital_and_functions_keep_their_names() {
        let capitals = |text: &str| Prose::from(text).capitalised().plain();
        assert_eq!(capitals("rank 3 is late"), "Rank 3 is late");
        assert_eq!(
            capitals("cudaStreamSynchronize costs time"),
            "cudaStreamSynchronize costs time"
        );
        assert_eq!(capitals(""), "");
        assert_eq!(prose![quoted("late", "/a"), " b"].capitalised().plain(), "Late b");
    }
}
