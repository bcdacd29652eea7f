//! Texts of the program without the secrets in them, before they reach the log. Hooks call this, so nothing is allocated.

use rankscope_ranklog::secrets::{FixedText, Redactor};
use std::fmt::Write;

/// Maximum length of a text that was redacted, in bytes. A text may grow, because `[redacted]` may be longer than a secret.
const LABEL_BYTES: usize = 1024;

/// Returns a label of at most 256 bytes without secrets. Bytes that are not UTF-8 become U+FFFD, as readers of logs show them.
pub fn label(redactor: &Redactor, text: &[u8]) -> FixedText<LABEL_BYTES> {
    let mut valid = FixedText::<LABEL_BYTES>::new();
    let text = std::str::from_utf8(text).unwrap_or_else(|_| {
        for chunk in text.utf8_chunks() {
            let end = if chunk.invalid().is_empty() {
                ""
            } else {
                "\u{FFFD}"
            };
            // A text that does not fit is cut.
            let _ = valid.write_str(chunk.valid()).and_then(|()| valid.write_str(end));
        }
        std::str::from_utf8(valid.as_bytes()).unwrap_or_default()
    });
    let mut shown = FixedText::new();
    // A text that does not fit is cut.
    let _ = redactor.write_text(text, &mut shown);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_lose_their_secrets_and_nothing_else() {
        let redactor = Redactor::of("site code", "acme_");
        let shown =
            |text: &[u8]| String::from_utf8(label(&redactor, text).as_bytes().to_vec()).expect("UTF-8");
        assert_eq!(shown(b"forward 12"), "forward 12");
        assert_eq!(
            shown(b"load postgres://ann:S3cret@db"),
            "load postgres://ann:[redacted]@db"
        );
        assert_eq!(
            shown(b"siteCode=7 acme_12345678"),
            "siteCode=[redacted] [redacted]"
        );
        assert_eq!(shown(b"token=\xFFabc next"), "token=[redacted] next");
        assert_eq!(shown("a\u{E9}".as_bytes().split_at(2).0), "a\u{FFFD}");
    }
}
