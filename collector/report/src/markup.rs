//! Text for the HTML page. All text from a recording passes through [`escape`]. Each value from the JSON is an element
//! that names its source.

use super::prose::{Piece, Prose, Shown};
use std::borrow::Cow;
use std::fmt::Write;

/// Formats an element of the page: `<td class="word">…</td>`. If the text is a single figure, the element itself names
/// the source. Otherwise each figure has a separate element with the tag `inner`.
pub fn element(tag: &str, attributes: &str, text: &Prose, inner: &str) -> String {
    let mut out = String::with_capacity(64);
    match text.pieces() {
        [Piece::Shown(shown)] => {
            let _ = write!(
                out,
                "<{tag}{attributes}{}>{}</{tag}>",
                source(shown),
                escape(&shown.text)
            );
        }
        _ => {
            let _ = write!(out, "<{tag}{attributes}>{}</{tag}>", inline(text, inner));
        }
    }
    out
}

/// Like [`element`], without sources, for pages without a JSON document.
pub fn bare_element(tag: &str, attributes: &str, text: &Prose, _inner: &str) -> String {
    format!("<{tag}{attributes}>{}</{tag}>", escape(&text.plain()))
}

/// Formats words, and figures as elements with the tag `inner`.
pub fn inline(text: &Prose, inner: &str) -> String {
    let mut out = String::new();
    for piece in text.pieces() {
        match piece {
            Piece::Words(words) => out.push_str(&escape(words)),
            Piece::Shown(shown) => {
                let _ = write!(out, "<{inner}{}>{}</{inner}>", source(shown), escape(&shown.text));
            }
            Piece::Link(shown, href) => {
                let (href, text) = (escape(&href.0), escape(&shown.text));
                let _ = write!(out, r#"<a href="{href}"{}>{text}</a>"#, source(shown));
            }
        }
    }
    out
}

/// Like [`inline`], between words of HTML.
pub fn html(text: &Prose) -> String {
    inline(text, "span")
}

fn source(shown: &Shown) -> String {
    let form = shown.form.name();
    if shown.source.is_empty() {
        format!(r#" data-as="{form}""#)
    } else {
        format!(r#" data-as="{form}" data-from="{}""#, escape(&shown.source))
    }
}

/// Escapes text for use between tags and inside double-quoted attributes. Characters that XML does not allow become the
/// replacement character.
pub fn escape(text: &str) -> Cow<'_, str> {
    let is_special = |c: char| matches!(c, '&' | '<' | '>' | '"' | '\'') || !is_allowed(c);
    if !text.contains(is_special) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if is_allowed(c) => out.push(c),
            _ => out.push('\u{fffd}'),
        }
    }
    Cow::Owned(out)
}

fn is_allowed(c: char) -> bool {
    !matches!(c, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{count, quoted};
    use crate::prose::prose;

    #[test]
    fn figures_name_their_source() {
        let one = prose![count(1_024, "/totals/lost")];
        assert_eq!(
            element("td", "", &one, "span"),
            r#"<td data-as="number" data-from="/totals/lost">1,024</td>"#
        );
        let several = prose!["a < ", quoted("b\"", "/ranks/0/name")];
        assert_eq!(
            element("td", r#" class="word""#, &several, "span"),
            r#"<td class="word">a &lt; <span data-as="text" data-from="/ranks/0/name">b&quot;</span></td>"#
        );
    }

    #[test]
    fn markup_in_texts_is_escaped() {
        assert_eq!(escape("rank 3"), "rank 3");
        assert_eq!(
            escape("<script>\"&'\u{1b}"),
            "&lt;script&gt;&quot;&amp;&#39;\u{fffd}"
        );
    }
}
