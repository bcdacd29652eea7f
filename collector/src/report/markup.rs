//! Text that becomes part of the page. Everything that comes from a recording goes through [`escape`].

use std::borrow::Cow;

/// Text as it may stand between tags and inside double-quoted attributes. Characters that no XML may hold are shown
/// as the replacement character.
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

    #[test]
    fn nothing_gets_out_of_its_place() {
        assert_eq!(escape("rank 3"), "rank 3");
        assert_eq!(
            escape("<script>\"&'\u{1b}"),
            "&lt;script&gt;&quot;&amp;&#39;\u{fffd}"
        );
    }
}
