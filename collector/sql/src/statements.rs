//! Splits SQL text into statements.

/// Lexical state at a position.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Code,
    /// A string or quoted identifier. A doubled quote closes and reopens it, which needs no extra state.
    Quotes(char),
    LineComment,
    BlockComment,
}

/// Returns the statements of a text, without their semicolons, and whether the last one ends with a semicolon. Text with only
/// comments is not a statement.
pub fn split(text: &str) -> (Vec<&str>, bool) {
    let mut inside = Inside::Code;
    let (mut start, mut has_code, mut is_complete) = (0, false, false);
    let mut found = Vec::new();
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let next = letters.peek().map(|&(_, next)| next);
        inside = match (inside, letter, next) {
            (Inside::Code, ';', _) => {
                if has_code {
                    found.push(text[start..at].trim());
                }
                (start, has_code, is_complete) = (at + 1, false, true);
                continue;
            }
            (Inside::Code, '\'' | '"' | '`', _) => Inside::Quotes(letter),
            (Inside::Code, '-', Some('-')) => Inside::LineComment,
            (Inside::Code, '/', Some('*')) => {
                letters.next();
                Inside::BlockComment
            }
            (Inside::Quotes(quote), _, _) if letter == quote => Inside::Code,
            (Inside::LineComment, '\n', _) => Inside::Code,
            (Inside::BlockComment, '*', Some('/')) => {
                letters.next();
                Inside::Code
            }
            (same, _, _) => same,
        };
        let is_code =
            matches!(inside, Inside::Code | Inside::Quotes(_)) && !letter.is_whitespace() && letter != '/';
        if is_code {
            (has_code, is_complete) = (true, false);
        }
    }
    if has_code {
        found.push(text[start..].trim());
    }
    (
        found,
        is_complete && matches!(inside, Inside::Code | Inside::LineComment),
    )
}

/// Returns the first word of a text, after comments and brackets.
pub fn first_word(text: &str) -> &str {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|letter: char| letter.is_whitespace() || letter == '(');
        let after = match (rest.strip_prefix("--"), rest.strip_prefix("/*")) {
            (Some(comment), _) => comment.split_once('\n'),
            (_, Some(comment)) => comment.split_once("*/"),
            _ => break,
        };
        rest = after.map_or("", |(_, after)| after);
    }
    rest.split(|letter: char| !letter.is_alphanumeric())
        .next()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_outside_of_texts_and_comments() {
        for (text, statements, is_complete) in [
            ("select 1", &["select 1"][..], false),
            ("select 1;", &["select 1"], true),
            ("select ';'", &["select ';'"], false),
            ("select ';\n'", &["select ';\n'"], false),
            ("select 1; -- done", &["select 1"], true),
            ("-- note; here\nselect 1;", &["-- note; here\nselect 1"], true),
            ("select 1; select \"a;b\";", &["select 1", "select \"a;b\""], true),
            ("select /* ; */ 1;", &["select /* ; */ 1"], true),
            ("select 4 / 2;", &["select 4 / 2"], true),
            ("select 1; /* open", &["select 1"], false),
            ("-- only a note", &[], false),
            (" ; ", &[], true),
        ] {
            assert_eq!(split(text), (statements.to_vec(), is_complete), "{text}");
        }
    }

    #[test]
    fn a_query_begins_after_comments_and_brackets() {
        for (text, word) in [
            ("select 1", "select"),
            ("-- a\n /* b */ (( WITH x as", "WITH"),
            ("no such dir", "no"),
            ("/* open", ""),
        ] {
            assert_eq!(first_word(text), word, "{text}");
        }
    }
}
