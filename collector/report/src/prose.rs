//! Text in which every number says where it comes from.
//!
//! The page is compared with `rankscope report --json` number by number. So what it says is not a string but [`Prose`]:
//! words, and between them what was [`Shown`] of the JSON, each with its [source](super::source). The functions of
//! [`super::figures`] are the only ones that make a [`Shown`] of a value; a test finds digits that stand anywhere else.

/// How a value was written, and so how it is read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Nanoseconds, as `12.3 ms`.
    Time,
    /// Nanoseconds summed over ranks, as `12.3 rank-ms`.
    RankTime,
    /// Nanoseconds since 1970, as a date.
    Moment,
    /// A number, as it is or with its thousands set apart.
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
    /// A text of the JSON, letter by letter.
    Text,
    /// A part of a text of the JSON: the beginning of an identity, the last part of a path.
    Part,
    /// A value and its unit, as a finding's condition names it.
    Condition,
    /// A place on an axis or a scale of a picture. Not of the JSON.
    Tick,
    /// How the page itself is drawn: rows that were left out, cells that share a place. Not of the JSON.
    Drawn,
    /// A number that is part of a definition: `at most 20 %`. Not of the JSON.
    Rule,
}

impl Form {
    /// As the page names it.
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

/// A value as it is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// What is read.
    pub text: String,
    /// How it was written.
    pub form: Form,
    /// Of what in the JSON it was made; empty where it is of none.
    pub source: String,
}

/// A part of a text.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// Words of our own, without a number.
    Words(String),
    /// Something of the JSON.
    Shown(Shown),
}

/// A text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prose {
    pieces: Vec<Piece>,
}

impl Prose {
    /// Continues it.
    pub fn push(&mut self, more: impl Into<Self>) {
        self.pieces.append(&mut more.into().pieces);
    }

    /// Its parts, in order.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// True without a letter.
    pub fn is_empty(&self) -> bool {
        self.pieces.iter().all(|piece| text(piece).is_empty())
    }

    /// As it is read where no sources are told.
    pub fn plain(&self) -> String {
        self.pieces.iter().map(text).collect()
    }

    /// Several with something between each two.
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

    /// With its first letter, if it is of words, as a capital.
    pub fn capitalised(mut self) -> Self {
        if let Some(Piece::Words(words) | Piece::Shown(Shown { text: words, .. })) = self.pieces.first_mut() {
            *words = capitalised(words);
        }
        self
    }
}

/// With a capital, unless the sentence begins with the name of a function: `cudaStreamSynchronize`.
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
        Piece::Shown(shown) => &shown.text,
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

impl<P: Into<Prose>> From<Option<P>> for Prose {
    fn from(part: Option<P>) -> Self {
        part.map_or_else(Self::default, Into::into)
    }
}

/// Words and figures one after the other.
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
