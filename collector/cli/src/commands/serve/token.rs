//! The token that requests need.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;
use subtle::ConstantTimeEq;

/// Minimum length of a token, in bytes. A shorter one can be guessed.
const MIN_LENGTH: usize = 16;

/// A token.
pub struct Token(String);

impl Token {
    /// Reads a token. Space around it does not belong to it.
    pub fn read(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let token = text.trim();
        if token.len() < MIN_LENGTH {
            bail!(
                "the token in {} has fewer than {MIN_LENGTH} characters; make one with: openssl rand -hex 32",
                file.display()
            );
        }
        Ok(Self(token.to_owned()))
    }

    /// Whether a value of the header `Authorization` has this token. The time that it takes does not depend on the token.
    pub fn allows(&self, header: Option<&str>) -> bool {
        let given = header.and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
        });
        given.is_some_and(|given| bool::from(given.as_bytes().ct_eq(self.0.as_bytes())))
    }
}

#[cfg(test)]
mod tests {
    use super::Token;

    #[test]
    fn only_the_whole_token_is_allowed() {
        let token = Token("0123456789abcdef".to_owned());
        assert!(token.allows(Some("Bearer 0123456789abcdef")));
        assert!(token.allows(Some("bearer 0123456789abcdef ")));
        for other in [
            None,
            Some(""),
            Some("Bearer"),
            Some("Bearer 0123456789abcde"),
            Some("Bearer 0123456789abcdef0"),
            Some("Basic 0123456789abcdef"),
        ] {
            assert!(!token.allows(other), "{other:?}");
        }
    }
}
