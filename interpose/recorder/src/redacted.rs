//! Texts of the program without the secrets in them, before they reach the log. Hooks call this, so nothing is allocated.

use rankscope_ranklog::secrets::{COUNT_DIGITS, FixedText, LEAST_AFTER_PREFIX, Redactor};
use std::fmt::Write;

/// Maximum length of a text that was redacted, in bytes. A text may grow, because `[redacted]` may be longer than a secret.
const LABEL_BYTES: usize = 1024;

/// Returns a label without its secrets, and invalid UTF-8 as U+FFFD. If the label was truncated (`is_cut`), its last word may be an
/// incomplete secret: it is dropped if it starts like a key or has a URL.
pub fn label(redactor: &Redactor, text: &[u8], is_cut: bool) -> FixedText<LABEL_BYTES> {
    let mut buffer = FixedText::new();
    let text = decoded(text, &mut buffer);
    let word = text.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let word = text.get(word..).unwrap_or_default();
    let is_part_of_secret =
        is_cut && (word.contains("://") || parts(word).any(|part| redactor.begins_like_key(part)));
    let kept = match is_part_of_secret {
        true => &text[..text.len() - word.len()],
        false => text,
    };
    let mut shown = FixedText::new();
    // A text that does not fit is cut.
    let _ = redactor
        .write_label(kept, is_cut, &mut shown)
        .and_then(|()| match is_part_of_secret {
            true => shown.write_str("…"),
            false => Ok(()),
        });
    shown
}

/// Returns true if the values of this name are secrets.
pub fn is_secret_name(redactor: &Redactor, name: &[u8]) -> bool {
    redactor.is_secret(decoded(name, &mut FixedText::new()))
}

/// Returns true if the digits at the end of a text must not be split off as the number of a step: they may be the end of a key, or a
/// secret number after a name. `redactor` is called only if the last word is long enough.
pub fn ends_like_key(text: &[u8], redactor: impl FnOnce() -> Redactor) -> bool {
    let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let before = text[..text.len() - digits].trim_ascii_end();
    if digits > COUNT_DIGITS && matches!(before.last(), Some(b'=' | b':')) {
        return true;
    }
    let is_of_key = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let length = text.iter().rev().take_while(|byte| is_of_key(byte)).count();
    // No key is shorter.
    length >= LEAST_KEY_BYTES
        && std::str::from_utf8(&text[text.len() - length..])
            .is_ok_and(|word| redactor().begins_like_key(word))
}

/// Minimum length of a key: a prefix of one letter, and the letters after it.
const LEAST_KEY_BYTES: usize = 1 + LEAST_AFTER_PREFIX;

/// Returns the parts of a word that may be keys.
fn parts(word: &str) -> impl Iterator<Item = &str> {
    word.split(|letter: char| !(letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.')))
}

fn decoded<'text>(text: &'text [u8], buffer: &'text mut FixedText<LABEL_BYTES>) -> &'text str {
    std::str::from_utf8(text).unwrap_or_else(|_| {
        for chunk in text.utf8_chunks() {
            let end = if chunk.invalid().is_empty() {
                ""
            } else {
                "\u{FFFD}"
            };
            // A text that does not fit is cut.
            let _ = buffer
                .write_str(chunk.valid())
                .and_then(|()| buffer.write_str(end));
        }
        std::str::from_utf8(buffer.as_bytes()).unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &[u8], is_cut: bool) -> String {
        let redactor = Redactor::of("site code", "acme_");
        String::from_utf8(label(&redactor, text, is_cut).as_bytes().to_vec()).expect("UTF-8")
    }

    #[test]
    fn labels_lose_their_secrets_and_nothing_else() {
        for (from, to) in [
            (&b"forward 12"[..], "forward 12"),
            (
                b"load postgres://ann:S3cret@db",
                "load postgres://ann:[redacted]@db",
            ),
            (b"siteCode=7 acme_12345678", "siteCode=[redacted] [redacted]"),
            (b"token=\xFFabc next", "token=[redacted] next"),
            (&"a\u{E9}".as_bytes()[..2], "a\u{FFFD}"),
        ] {
            assert_eq!(shown(from, false), to);
        }
    }

    #[test]
    fn the_end_of_a_cut_text_is_no_part_of_a_secret() {
        for (from, to) in [
            (&b"load postgres://ann:S3cr"[..], "load …"),
            (b"use ghp_abc", "use …"),
            (b"token acme_1", "token …"),
            (b"a long name of a layer", "a long name of a layer"),
            (
                b"Config { password: {a: S3cret, b",
                "Config { password: [redacted]",
            ),
            (b"hf_token: Some(\"S3cret S4cret", "hf_token: [redacted]"),
        ] {
            assert_eq!(shown(from, true), to);
        }
    }

    #[test]
    fn digits_of_keys_are_no_numbers_of_steps() {
        let redactor = Redactor::of("", "acme_");
        let is_key = |text: &[u8]| ends_like_key(text, || redactor.clone());
        assert!(is_key(b"api_token=1234567890") && is_key(b"PIN: 1234567") && !is_key(b"loss: 12"));
        assert!(is_key(b"use AKIAIOSFODNN7EXAMPL2") && is_key(b"acme_12345678"));
        assert!(
            !is_key(b"step 12") && !is_key(b"ProfilerStep#1234567") && !is_key(b"a_long_name_of_a_layer_17")
        );
    }

    #[test]
    fn names_that_are_not_utf_8_can_be_secret() {
        assert!(is_secret_name(&Redactor::default(), b"cl\xE9_token"));
        assert!(!is_secret_name(&Redactor::default(), b"tokens"));
    }
}
