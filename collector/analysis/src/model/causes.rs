//! Texts of errors, each once.

use std::error::Error;

/// Returns the text of an error and those of its causes, from the outside in.
///
/// Many errors already contain the text of their cause, because some callers print only the outermost error. Such a cause is left out.
pub fn texts<'e>(chain: impl IntoIterator<Item = &'e (dyn Error + 'static)>) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for error in chain {
        let text = error.to_string();
        if !texts.iter().any(|known| known.contains(&text)) {
            texts.push(text);
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn a_cause_that_an_outer_error_contains_is_left_out() {
        let inner = io::Error::other("the disk is full");
        let middle = io::Error::other(format!("/tmp/x: {inner}"));
        let outer = io::Error::other("cannot write the table");
        let chain: [&(dyn Error + 'static); 3] = [&outer, &middle, &inner];
        assert_eq!(
            texts(chain),
            ["cannot write the table", "/tmp/x: the disk is full"]
        );
        assert_eq!(texts([&inner as &(dyn Error + 'static)]), ["the disk is full"]);
    }
}
