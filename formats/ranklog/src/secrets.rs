//! Secrets in texts that a log keeps: command lines and values of environment variables. Logs and reports go to colleagues
//! and into issues.
//!
//! A secret is found by the name before it, by its place in a URL or a header, or by its shape. A name is split into words,
//! so `--hf-token` has a secret and `--max-tokens` and `--tokenizer` have none.

/// Text that replaces a secret.
pub const REDACTED: &str = "[redacted]";

/// Environment variable with further names of secrets, separated by commas. It covers all names that contain its
/// words in a row.
pub const SECRET_NAMES_VARIABLE: &str = "RANKSCOPE_SECRET_NAMES";

/// Words of a name, in a row, that make its value a secret.
const SECRET_NAMES: [&str; 22] = [
    "token",
    "secret",
    "secrets",
    "password",
    "passwd",
    "passphrase",
    "pass",
    "pwd",
    "credential",
    "credentials",
    "api key",
    "apikey",
    "access key",
    "secret key",
    "private key",
    "signing key",
    "account key",
    "auth",
    "authorization",
    "cookie",
    "signature",
    "sig",
];

/// Last words of names whose values are not the secrets themselves.
const HARMLESS_ENDINGS: [&str; 11] = [
    "file", "path", "dir", "type", "mode", "length", "size", "limit", "timeout", "method", "count",
];

/// Options of common programs whose names say less than they do: `mysql -pPASSWORD`, `curl -u USER:PASSWORD`.
const SHORT_OPTIONS: [&str; 2] = ["-p", "-u"];

/// Beginning of a secret whose shape is known, minimum number of the characters after it, and whether they are only upper
/// case and digits. Sources: the secret-scanning documentation of the issuers.
const SHAPES: [(&str, usize, bool); 26] = [
    ("AKIA", 16, true),
    ("ASIA", 16, true),
    ("AIza", 35, false),
    ("ya29.", 20, false),
    ("ghp_", 30, false),
    ("gho_", 30, false),
    ("ghu_", 30, false),
    ("ghs_", 30, false),
    ("ghr_", 30, false),
    ("github_pat_", 30, false),
    ("glpat-", 16, false),
    ("hf_", 30, false),
    ("api_org_", 30, false),
    ("nvapi-", 30, false),
    ("sk-", 20, false),
    ("sk_live_", 16, false),
    ("sk_test_", 16, false),
    ("rk_live_", 16, false),
    ("xoxb-", 16, false),
    ("xoxp-", 16, false),
    ("xoxa-", 16, false),
    ("xoxr-", 16, false),
    ("npm_", 30, false),
    ("pypi-", 30, false),
    ("dop_v1_", 30, false),
    ("eyJ", 30, false),
];

/// Minimum length of a user name in a URL without password that is taken for a token, as in `https://TOKEN@github.com`.
const TOKEN_AS_USER: usize = 20;

/// What the next word of a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// A word of its own.
    Word,
    /// Perhaps a sign between a secret's name and its value.
    Value,
    /// A secret.
    HiddenWord,
    /// All words up to a separator other than a space are one secret.
    HiddenField,
}

/// Replaces secrets.
#[derive(Clone, Debug)]
pub struct Redactor {
    names: Vec<Vec<String>>,
    /// Names of the user.
    further: Vec<Vec<String>>,
}

impl Default for Redactor {
    fn default() -> Self {
        Self::new("")
    }
}

impl Redactor {
    /// Creates a redactor with further names, separated by commas.
    pub fn new(further_names: &str) -> Self {
        let names = further_names.split(',').map(words);
        Self {
            names: SECRET_NAMES.into_iter().map(words).collect(),
            further: names.filter(|words| !words.is_empty()).collect(),
        }
    }

    /// Creates a redactor with the names of the environment variable [`SECRET_NAMES_VARIABLE`].
    pub fn of_environment() -> Self {
        Self::new(&std::env::var(SECRET_NAMES_VARIABLE).unwrap_or_default())
    }

    /// Returns true if the value of an option, a variable or a field of this name is a secret.
    pub fn is_secret(&self, name: &str) -> bool {
        let words = words(name);
        let has = |names: &[Vec<String>]| {
            names
                .iter()
                .any(|secret| words.windows(secret.len()).any(|part| part == secret))
        };
        // `--token-file` is a path, and `--auth-type` a word.
        let is_harmless = words
            .last()
            .is_some_and(|last| HARMLESS_ENDINGS.contains(&last.as_str()));
        has(&self.further) || (!is_harmless && has(&self.names))
    }

    /// Returns the command line of these arguments, separated by spaces.
    pub fn command_line(&self, arguments: &[String]) -> String {
        let mut out: Vec<String> = Vec::with_capacity(arguments.len());
        let mut is_value = false;
        for argument in arguments {
            if std::mem::take(&mut is_value) && !argument.starts_with('-') {
                out.push(REDACTED.to_owned());
                continue;
            }
            is_value = self.is_secret_option(argument);
            out.push(self.text(argument));
        }
        out.join(" ")
    }

    /// Returns the value of a variable of this name.
    pub fn value(&self, name: &str, value: &str) -> String {
        if self.is_secret(name) {
            return REDACTED.to_owned();
        }
        self.text(value)
    }

    /// Returns a text without the secrets in it: after `NAME=` and `NAME: `, after an option, in URLs, after `Bearer`, and by
    /// their shape.
    pub fn text(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut next = Next::Word;
        let mut rest = text;
        while !rest.is_empty() {
            let (word, after) = rest.split_at(rest.find(is_separator).unwrap_or(rest.len()));
            let separator_bytes = after.chars().next().map_or(0, char::len_utf8);
            let (separator, following) = after.split_at(separator_bytes);
            rest = following;
            if !word.is_empty() {
                next = self.put_word(word, next, &mut out);
            }
            if next == Next::HiddenField && !separator.is_empty() && separator != " " {
                next = Next::Word;
            }
            out.push_str(separator);
        }
        out
    }

    /// Appends a word, and returns what the next one is.
    fn put_word(&self, word: &str, this: Next, out: &mut String) -> Next {
        let is_sign = matches!(word, ":" | "=");
        match this {
            Next::HiddenField => {
                // Several words are one secret.
                let end = out.trim_end_matches(' ').len();
                if out[..end].ends_with(REDACTED) {
                    out.truncate(end);
                } else {
                    out.push_str(REDACTED);
                }
                return Next::HiddenField;
            }
            Next::HiddenWord if !is_sign && !word.starts_with('-') => {
                out.push_str(REDACTED);
                // The header `Authorization` has a scheme before the secret.
                return if is_scheme(word) {
                    Next::HiddenField
                } else {
                    Next::Word
                };
            }
            Next::Value if is_sign => {
                out.push_str(word);
                return Next::HiddenWord;
            }
            _ => {}
        }
        match word.split_once('=') {
            Some((name, _)) if name.contains("://") => out.push_str(&self.word(word)),
            Some((name, value)) if self.is_secret(name) && !value.is_empty() => {
                out.push_str(&format!("{name}={REDACTED}"));
            }
            Some((name, value)) => out.push_str(&format!("{name}={}", self.word(value))),
            None => out.push_str(&self.word(word)),
        }
        let is_bearer = word.eq_ignore_ascii_case("bearer");
        let named = word.strip_suffix([':', '=']);
        if is_bearer || named.is_some_and(|name| self.is_secret(name)) {
            Next::HiddenField
        } else if self.is_secret_option(word) {
            Next::HiddenWord
        } else if !word.contains([':', '=', '/']) && self.is_secret(word) {
            Next::Value
        } else {
            Next::Word
        }
    }

    /// Returns true if the next argument is the secret value of this one.
    fn is_secret_option(&self, argument: &str) -> bool {
        argument.starts_with('-') && !argument.contains(['=', ':', '/']) && self.is_secret(argument)
    }

    /// Returns a word without the secrets in it.
    fn word(&self, word: &str) -> String {
        if let Some((scheme, rest)) = word.split_once("://") {
            return format!("{scheme}://{}", self.url(rest));
        }
        if let Some((name, value)) = word.split_once(':')
            && !value.is_empty()
            && !name.is_empty()
            && self.is_secret(name)
        {
            return format!("{name}:{REDACTED}");
        }
        match short_option(word) {
            Some(option) => format!("{option}{REDACTED}"),
            None => by_shape(word),
        }
    }

    /// Returns the part of a URL after `://` without passwords and secret parameters.
    fn url(&self, rest: &str) -> String {
        let (address, parameters) = match rest.find(['?', '#']) {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let end = address.find('/').unwrap_or(address.len());
        let (host, path) = address.split_at(end);
        let mut out = match host.rsplit_once('@') {
            Some((user, host)) => match user.split_once(':') {
                Some((user, _)) => format!("{user}:{REDACTED}@{host}"),
                None if user.len() >= TOKEN_AS_USER => format!("{REDACTED}@{host}"),
                None => format!("{}@{host}", by_shape(user)),
            },
            None => host.to_owned(),
        };
        let parts: Vec<String> = path.split('/').map(by_shape).collect();
        out.push_str(&parts.join("/"));
        for part in parameters.split_inclusive(['?', '#', '&', ';']) {
            let (field, separator) = match part.char_indices().next_back() {
                Some((at, '?' | '#' | '&' | ';')) => part.split_at(at),
                _ => (part, ""),
            };
            match field.split_once('=') {
                Some((name, _)) if self.is_secret(name) => out.push_str(&format!("{name}={REDACTED}")),
                Some((name, value)) => out.push_str(&format!("{name}={}", by_shape(value))),
                None => out.push_str(&by_shape(field)),
            }
            out.push_str(separator);
        }
        out
    }
}

/// Returns true for a scheme of the header `Authorization`.
fn is_scheme(word: &str) -> bool {
    let schemes = ["basic", "bearer", "digest", "negotiate", "token"];
    schemes.iter().any(|scheme| word.eq_ignore_ascii_case(scheme))
}

/// Returns true for a character between the words of a text.
fn is_separator(character: char) -> bool {
    character.is_whitespace() || matches!(character, '\'' | '"' | ',' | '`' | '{' | '}' | '(' | ')')
}

/// Returns the words of a name in lower case. Words are separated by punctuation, and by a capital letter after a small one.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_small = false;
    for letter in name.chars() {
        let is_break = !letter.is_alphanumeric() || (letter.is_uppercase() && after_small);
        after_small = letter.is_lowercase();
        if is_break {
            words.push(String::new());
        }
        if let (true, Some(word)) = (letter.is_alphanumeric(), words.last_mut()) {
            word.extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the option of an argument such as `-pPASSWORD` or `-uUSER:PASSWORD`. Numbers and paths are no passwords.
fn short_option(argument: &str) -> Option<&'static str> {
    let option = SHORT_OPTIONS
        .into_iter()
        .find(|option| argument.starts_with(option))?;
    let value = &argument[option.len()..];
    let is_number = value
        .chars()
        .all(|letter| letter.is_ascii_digit() || matches!(letter, '.' | ':' | ','));
    let is_path = value.starts_with(['/', '.', '~', '=']);
    // `-u` without a password is the user, or Python's option for unbuffered output.
    let has_password = option == "-p" || value.contains(':');
    (!value.is_empty() && !is_number && !is_path && has_password && value != "thread").then_some(option)
}

/// Returns a word, or that it was a secret by its shape.
fn by_shape(word: &str) -> String {
    let is_of = |&(start, least, is_upper): &(&str, usize, bool)| {
        let Some(rest) = word.strip_prefix(start) else {
            return false;
        };
        let belongs = |letter: char| match is_upper {
            true => letter.is_ascii_uppercase() || letter.is_ascii_digit(),
            false => letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.'),
        };
        rest.chars().count() >= least && rest.chars().all(belongs)
    };
    if SHAPES.iter().any(is_of) {
        REDACTED.to_owned()
    } else {
        word.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(arguments: &[&str]) -> String {
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        Redactor::default().command_line(&arguments)
    }

    fn text(text: &str) -> String {
        Redactor::default().text(text)
    }

    #[test]
    fn values_of_secret_options_are_replaced() {
        assert_eq!(
            line(&[
                "train.py",
                "--hf-token=abc",
                "--api-key",
                "xyz",
                "PASSWORD=1",
                "--lr",
                "0.1"
            ]),
            "train.py --hf-token=[redacted] --api-key [redacted] PASSWORD=[redacted] --lr 0.1"
        );
        assert_eq!(
            line(&["mysql", "-pS3cret", "-h", "db"]),
            "mysql -p[redacted] -h db"
        );
        assert_eq!(line(&["curl", "-uann:S3cret"]), "curl -u[redacted]");
        assert_eq!(line(&["x", "--password", "--verbose"]), "x --password --verbose");
        assert_eq!(line(&["x", "--dbPassword", "a b"]), "x --dbPassword [redacted]");
    }

    #[test]
    fn what_only_looks_like_a_secret_stays() {
        let plain = [
            "python",
            "-u",
            "train.py",
            "--max-tokens",
            "2048",
            "--tokenizer=gpt2",
            "--author",
            "ann",
            "-p8080",
            "-p/data",
            "--passes",
            "3",
            "--key-value",
            "7",
            "--signal=9",
            "--compass",
            "north",
            "user@host:/data",
            "tcp://127.0.0.1:29500",
            "--commit",
            "da39a3ee5e6b4b0d3255bfef95601890afd80709",
            "sk-short",
            "hf_hub",
        ];
        assert_eq!(line(&plain), plain.join(" "));
    }

    #[test]
    fn urls_keep_everything_but_their_secrets() {
        for (from, to) in [
            (
                "postgres://ann:S3cret@db:5432/runs",
                "postgres://ann:[redacted]@db:5432/runs",
            ),
            (
                "--db=postgres://ann:S3:cr@et@db/runs",
                "--db=postgres://ann:[redacted]@db/runs",
            ),
            (
                "https://0123456789abcdef0123@github.com/a/b",
                "https://[redacted]@github.com/a/b",
            ),
            ("https://ann@host/a", "https://ann@host/a"),
            (
                "s3://bucket/a?X-Amz-Signature=ab12&X-Amz-Date=3#top",
                "s3://bucket/a?X-Amz-Signature=[redacted]&X-Amz-Date=3#top",
            ),
            (
                "https://a.blob/x?sv=1&sig=a%3D",
                "https://a.blob/x?sv=1&sig=[redacted]",
            ),
            ("tcp://host:29500?token=x", "tcp://host:29500?token=[redacted]"),
        ] {
            assert_eq!(text(from), to);
        }
    }

    #[test]
    fn headers_and_shapes_are_found_inside_texts() {
        for (from, to) in [
            ("Authorization: Bearer abc.def", "Authorization: [redacted]"),
            ("Authorization: Basic YTpi", "Authorization: [redacted]"),
            (
                "curl -H 'X-Api-Key: abc' https://h",
                "curl -H 'X-Api-Key: [redacted]' https://h",
            ),
            ("X-Api-Key:abc", "X-Api-Key:[redacted]"),
            (
                "{\"token\":\"x\", \"n\": 1}",
                "{\"token\":\"[redacted]\", \"n\": 1}",
            ),
            (
                "{\"Authorization\": \"Bearer x y\", \"n\": 1}",
                "{\"Authorization\": \"[redacted]\", \"n\": 1}",
            ),
            ("{\"token\": \"x\"}", "{\"token\": \"[redacted]\"}"),
            ("say \"bearer abc\" now", "say \"bearer [redacted]\" now"),
            (
                "sh -c mysql --password x -pS3cret db",
                "sh -c mysql --password [redacted] -p[redacted] db",
            ),
            ("sh -c TOKEN=x train", "sh -c TOKEN=[redacted] train"),
            ("key AKIAIOSFODNN7EXAMPLE, next", "key [redacted], next"),
            ("--k=hf_abcdefghijklmnopqrstuvwxyz0123456789", "--k=[redacted]"),
            ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "[redacted]"),
            ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefghijk", "[redacted]"),
        ] {
            assert_eq!(text(from), to, "{from}");
        }
    }

    #[test]
    fn users_add_names() {
        let redactor = Redactor::new("license, site code");
        assert!(redactor.is_secret("MLM_LICENSE"));
        assert!(redactor.is_secret("--siteCode") && redactor.is_secret("SITE_CODE_2"));
        assert!(!redactor.is_secret("--code") && redactor.is_secret("TOKEN"));
        assert_eq!(redactor.value("LICENSE_FILE", "1234"), REDACTED);
        assert_eq!(redactor.value("NCCL_DEBUG", "INFO"), "INFO");
    }

    proptest! {
        #[test]
        fn nothing_is_left_to_replace(text in "([a-z-]{0,9}(token|pass|=|: |://|@|\"| |ghp_)){0,6}[a-z0-9]{0,40}") {
            let redactor = Redactor::default();
            let once = redactor.text(&text);
            prop_assert_eq!(redactor.text(&once), once);
        }

        #[test]
        fn no_text_panics(text in any::<String>(), arguments in proptest::collection::vec(any::<String>(), 0..6)) {
            let redactor = Redactor::default();
            let _ = (redactor.text(&text), redactor.command_line(&arguments));
        }

        #[test]
        fn a_password_in_a_url_never_stays(password in "[A-Za-z0-9:@%]{8,20}", user in "[a-z]{1,8}") {
            let redacted = Redactor::default().text(&format!("--db=postgres://{user}:x{password}@db/runs"));
            prop_assert!(!redacted.contains(&format!("x{password}")), "{}", redacted);
        }
    }
}
