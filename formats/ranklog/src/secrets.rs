//! Secrets in texts that a log keeps: command lines and values of environment variables. Logs and reports go to colleagues
//! and into issues.
//!
//! This is a heuristic: a secret without a telling name, place or shape stays. A secret is found by the name before it, by its place in a URL or a header, or by its shape. A name is split into words,
//! and its last words count: `--hf-token` has a secret, and `--max-tokens`, `--tokenizer` and `--token-file` have none.

use std::iter;

/// Text that replaces a secret.
pub const REDACTED: &str = "[redacted]";

/// Environment variable with further names of secrets, separated by commas. It covers all names that contain its
/// words in a row.
pub const SECRET_NAMES_VARIABLE: &str = "RANKSCOPE_SECRET_NAMES";

/// Last words of a name that make its value a secret.
const SECRET_NAMES: [&str; 24] = [
    "token",
    "api tokens",
    "secret",
    "secrets",
    "password",
    "passwords",
    "passwd",
    "passphrase",
    "pwd",
    "credential",
    "credentials",
    "api key",
    "access key",
    "secret key",
    "secretkey",
    "private key",
    "signing key",
    "account key",
    "license key",
    "auth",
    "authorization",
    "cookie",
    "signature",
    "sig",
];

/// Ends of a last word that make it one of these names: `PGPASSWORD`, `HFTOKEN`.
const SECRET_ENDINGS: [&str; 5] = ["token", "secret", "password", "passwd", "apikey"];

/// First words of names that are switches or counts: `--no-auth`.
const HARMLESS_BEGINNINGS: [&str; 6] = ["no", "disable", "without", "max", "min", "num"];

/// Names whose values have several words.
const FIELDS: [&str; 2] = ["authorization", "cookie"];

/// Schemes of the header `Authorization`: the secret follows.
const SCHEMES: [&str; 5] = ["basic", "bearer", "digest", "negotiate", "token"];

/// Options whose value is USER:PASSWORD, as of curl.
const USER_OPTIONS: [&str; 3] = ["-u", "--user", "--proxy-user"];

/// Beginnings of the names of programs whose option `-p` is a password.
const PASSWORD_PROGRAMS: [&str; 3] = ["mysql", "mariadb", "sshpass"];

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
        let is_further = |secret: &Vec<String>| words.windows(secret.len()).any(|part| part == secret);
        if self.further.iter().any(is_further) {
            return true;
        }
        let is_harmless = words
            .first()
            .is_some_and(|first| HARMLESS_BEGINNINGS.contains(&first.as_str()));
        let has_ending = words
            .last()
            .is_some_and(|last| SECRET_ENDINGS.iter().any(|ending| last.ends_with(ending)));
        !is_harmless && (has_ending || self.names.iter().any(|secret| words.ends_with(secret)))
    }

    /// Returns the command line of these arguments, separated by spaces.
    pub fn command_line(&self, arguments: &[String]) -> String {
        let has_password_option = arguments.iter().any(|argument| is_password_program(argument));
        let mut out: Vec<String> = Vec::with_capacity(arguments.len());
        let before = iter::once("").chain(arguments.iter().map(String::as_str));
        for (before, argument) in before.zip(arguments) {
            let is_value = !argument.starts_with('-')
                && (self.is_secret_option(before) || (before == "-p" && has_password_option));
            out.push(if is_value {
                REDACTED.to_owned()
            } else if let Some(user) = user_of(before, argument) {
                format!("{user}:{REDACTED}")
            } else if has_password_option && argument.starts_with("-p") && argument.len() > 2 {
                format!("-p{REDACTED}")
            } else {
                self.text(argument)
            });
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

    /// Returns a text without the secrets in it: after `NAME=`, `NAME: ` and options, in URLs, after `Bearer`, and by their
    /// shape.
    pub fn text(&self, text: &str) -> String {
        let has_password_option = text.split_whitespace().any(is_password_program);
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let end = rest.find(|letter| !is_of_name(letter)).unwrap_or(rest.len());
            if end == 0 {
                out.push(first);
                rest = &rest[first.len_utf8()..];
                continue;
            }
            let (name, after) = rest.split_at(end);
            rest = self.put_name(name, after, has_password_option, &mut out);
        }
        out
    }

    /// Appends a name, and the secret after it. Returns the rest of the text.
    fn put_name<'text>(
        &self,
        name: &str,
        after: &'text str,
        has_password_option: bool,
        out: &mut String,
    ) -> &'text str {
        if let Some(address) = after.strip_prefix("://") {
            out.push_str(name);
            out.push_str("://");
            return put_user_of_url(address, out);
        }
        if is_password_option(name, has_password_option) {
            out.push_str("-p");
            out.push_str(REDACTED);
            return &after[after.find(is_end_of_value).unwrap_or(after.len())..];
        }
        out.push_str(&by_shape(name));
        let is_field = FIELDS.iter().any(|field| name.eq_ignore_ascii_case(field));
        let sign = sign_bytes(after);
        if sign > 0 && self.is_secret(name) {
            out.push_str(&after[..sign]);
            return put_hidden(&after[sign..], is_field, out);
        }
        let spaces = after.len() - after.trim_start_matches(' ').len();
        let (gap, value) = after.split_at(spaces);
        if spaces == 0 || value.is_empty() || value.starts_with('-') {
            return after;
        }
        if name.eq_ignore_ascii_case("bearer") {
            out.push_str(gap);
            return put_hidden(value, true, out);
        }
        let is_value = self.is_secret_option(name) || (name == "-p" && has_password_option);
        if is_value {
            out.push_str(gap);
            return put_hidden(value, false, out);
        }
        let word = &value[..value.find(is_end_of_value).unwrap_or(value.len())];
        if let Some(user) = user_of(name, word) {
            out.push_str(&format!("{gap}{user}:{REDACTED}"));
            return &value[word.len()..];
        }
        after
    }

    /// Returns true if the next argument is the secret value of this one.
    fn is_secret_option(&self, argument: &str) -> bool {
        argument.starts_with('-') && argument.chars().all(is_of_name) && self.is_secret(argument)
    }
}

/// Returns true for a letter of a name, an option, or a key.
fn is_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.')
}

/// Returns true for a letter after the end of a value that is not in quotes.
fn is_end_of_value(letter: char) -> bool {
    letter.is_whitespace()
        || matches!(
            letter,
            '\'' | '"' | '`' | ',' | ';' | '&' | '(' | ')' | '{' | '}' | '[' | ']'
        )
}

/// Returns the size of the sign between a name and its value: `=`, `: `, `": "` of JSON. 0: there is none.
fn sign_bytes(text: &str) -> usize {
    let rest = text
        .trim_start_matches('\\')
        .trim_start_matches(['\'', '"'])
        .trim_start_matches(' ');
    match rest.strip_prefix(['=', ':']) {
        Some(rest) => text.len() - rest.trim_start_matches(' ').len(),
        None => 0,
    }
}

/// Appends what replaces the value at the start of a text. Returns the rest of the text. `is_field`: the value can have several
/// words.
fn put_hidden<'text>(text: &'text str, is_field: bool, out: &mut String) -> &'text str {
    if let Some(rest) = text.strip_prefix(REDACTED) {
        out.push_str(REDACTED);
        return rest;
    }
    for quote in ["\\\"", "\\'", "\"", "'"] {
        if let Some(inside) = text.strip_prefix(quote) {
            let end = inside.find(quote).unwrap_or(inside.len());
            out.push_str(quote);
            if end > 0 {
                out.push_str(REDACTED);
            }
            return &inside[end..];
        }
    }
    let mut end = text.find(is_end_of_value).unwrap_or(text.len());
    let has_scheme = SCHEMES
        .iter()
        .any(|scheme| text[..end].eq_ignore_ascii_case(scheme));
    if is_field || has_scheme {
        let is_end = |letter: char| letter != ' ' && is_end_of_value(letter);
        end = text.find(is_end).unwrap_or(text.len());
        end = text[..end].trim_end().len();
    }
    if end > 0 {
        out.push_str(REDACTED);
    }
    &text[end..]
}

/// Appends the user of the URL whose part after `://` a text begins with. Returns the rest of the text.
fn put_user_of_url<'text>(text: &'text str, out: &mut String) -> &'text str {
    let is_end = |letter: char| letter.is_whitespace() || matches!(letter, '\'' | '"' | '`' | '<' | '>');
    // One pass: a command line may have a list of thousands of URLs.
    let is_next = |&(at, letter): &(usize, char)| is_end(letter) || text[at..].starts_with("://");
    let (end, _) = text.char_indices().find(is_next).unwrap_or((text.len(), ' '));
    let mut url = &text[..end];
    if text[end..].starts_with("://") {
        // Without the scheme of the next URL.
        url = url.trim_end_matches(|letter: char| letter.is_ascii_alphanumeric() || letter == '+');
    }
    let authority = &url[..url.find(['/', '?', '#']).unwrap_or(url.len())];
    let is_port = |text: &str| text.chars().all(|letter| letter.is_ascii_digit());
    let user = match authority.rsplit_once('@') {
        Some((user, _)) => user,
        // A password with a slash that was not escaped. A number after the host is a port.
        None => match (authority.split_once(':'), url.rsplit_once('@')) {
            (Some((_, password)), Some((user, _))) if !is_port(password) => user,
            _ => return text,
        },
    };
    match user.split_once(':') {
        Some((name, _)) => out.push_str(&format!("{name}:{REDACTED}")),
        None if user.len() >= TOKEN_AS_USER => out.push_str(REDACTED),
        None => out.push_str(&by_shape(user)),
    }
    &text[user.len()..]
}

/// Returns the user of an argument `USER:PASSWORD` after an option such as `-u`. Two numbers are identifiers.
fn user_of<'text>(option: &str, argument: &'text str) -> Option<&'text str> {
    let (user, password) = argument.split_once(':')?;
    let is_number = |text: &str| text.chars().all(|letter| letter.is_ascii_digit());
    let is_it = USER_OPTIONS.contains(&option) && !password.is_empty() && !password.starts_with("//");
    (is_it && !(is_number(user) && is_number(password))).then_some(user)
}

/// Returns true for `-pPASSWORD`: of a program that has this option, or if it looks like a password.
fn is_password_option(name: &str, has_password_option: bool) -> bool {
    let Some(value) = name.strip_prefix("-p") else {
        return false;
    };
    let has = |test: fn(&char) -> bool| value.chars().any(|letter| test(&letter));
    let looks_like_one = has(|letter| letter.is_ascii_digit()) && has(|letter| letter.is_ascii_alphabetic());
    !value.is_empty() && (has_password_option || looks_like_one)
}

fn is_password_program(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word);
    PASSWORD_PROGRAMS.iter().any(|program| name.starts_with(program))
}

/// Returns the words of a name in lower case. Words are separated by punctuation, and by a capital letter after a small one.
/// Digits at the end of a word are left out.
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
    let trimmed = words.iter().map(|word| {
        word.trim_end_matches(|letter: char| letter.is_ascii_digit())
            .to_owned()
    });
    trimmed.filter(|word| !word.is_empty()).collect()
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
    // Other texts that are encoded from JSON begin like a JSON web token.
    let is_encoded_json = word.starts_with("eyJ") && word.matches('.').count() != 2;
    if SHAPES.iter().any(is_of) && !is_encoded_json {
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
        for (arguments, shown) in [
            (
                &[
                    "train.py",
                    "--hf-token=abc",
                    "--api-key",
                    "xyz",
                    "PASSWORD=1",
                    "--lr",
                    "0.1",
                ][..],
                "train.py --hf-token=[redacted] --api-key [redacted] PASSWORD=[redacted] --lr 0.1",
            ),
            (&["mysql", "-psecret", "-h", "db"], "mysql -p[redacted] -h db"),
            (&["x", "-pS3cret", "-pS3=cret"], "x -p[redacted] -p[redacted]"),
            (
                &["sshpass", "-p", "S3cret", "ssh", "h"],
                "sshpass -p [redacted] ssh h",
            ),
            (
                &["curl", "-u", "ann:S3cret", "--user", "b:c"],
                "curl -u ann:[redacted] --user b:[redacted]",
            ),
            (&["x", "--password", "--verbose"], "x --password --verbose"),
            (
                &["x", "--dbPassword", "a b", "--password=\"S3 c\""],
                "x --dbPassword [redacted] --password=\"[redacted]\"",
            ),
            (&["sh", "-c", "TOKEN='a b' t.py"], "sh -c TOKEN='[redacted]' t.py"),
            (
                &["srun", "--export=A=1,HF_TOKEN=abc"],
                "srun --export=A=1,HF_TOKEN=[redacted]",
            ),
            (
                &["env", "PGPASSWORD=x", "HFTOKEN=y", "DB_PASSWORD1=z"],
                "env PGPASSWORD=[redacted] HFTOKEN=[redacted] DB_PASSWORD1=[redacted]",
            ),
        ] {
            assert_eq!(line(arguments), shown);
        }
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
            "--pad-token-id",
            "0",
            "--token-dropout=0.1",
            "--no-auth",
            "run.py",
            "-ppn",
            "8",
            "-print",
            "-pdebug",
            "--tokens-per-step",
            "5",
            "--world_info=eyJsb2NhbGhvc3QiOiBbMCwgMSwgMiwgM119",
            "-u",
            "1000:1000",
            "https://host:8080/@scope/a",
            "--token-file",
            "/run/t",
            "--user",
            "ann",
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
            ("postgres://ann:S3,cr(et@db", "postgres://ann:[redacted]@db"),
            ("postgres://ann:S3/cr#et@db/x", "postgres://ann:[redacted]@db/x"),
            (
                "amqp://u:p@h1;amqp://u:p@h2,amqp://v:q@h3",
                "amqp://u:[redacted]@h1;amqp://u:[redacted]@h2,amqp://v:[redacted]@h3",
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
            (
                "jdbc:sqlserver://h;user=a;password=x;n=1",
                "jdbc:sqlserver://h;user=a;password=[redacted];n=1",
            ),
        ] {
            assert_eq!(text(from), to);
        }
    }

    #[test]
    fn headers_and_shapes_are_found_inside_texts() {
        for (from, to) in [
            ("Authorization: Bearer abc.def", "Authorization: [redacted]"),
            ("Authorization=Basic YTpi, n=1", "Authorization=[redacted], n=1"),
            ("Authorization:Bearer abc", "Authorization:[redacted]"),
            (
                "curl -H 'X-Api-Key: abc' https://h",
                "curl -H 'X-Api-Key: [redacted]' https://h",
            ),
            ("X-Api-Key: \"abc\" n", "X-Api-Key: \"[redacted]\" n"),
            (
                "{\"token\":\"x\", \"n\": 1}",
                "{\"token\":\"[redacted]\", \"n\": 1}",
            ),
            ("{\"password\":12345}", "{\"password\":[redacted]}"),
            (
                "{\\\"token\\\": \\\"x y\\\"}",
                "{\\\"token\\\": \\\"[redacted]\\\"}",
            ),
            (
                "{\"Authorization\": \"Bearer x y\", \"n\": 1}",
                "{\"Authorization\": \"[redacted]\", \"n\": 1}",
            ),
            (
                "Server=db;Password=x;AccountKey=y==;n=1",
                "Server=db;Password=[redacted];AccountKey=[redacted];n=1",
            ),
            ("say \"bearer abc\" now", "say \"bearer [redacted]\" now"),
            (
                "sh -c mysql --password \"a b\" -pS3cret db",
                "sh -c mysql --password \"[redacted]\" -p[redacted] db",
            ),
            ("key AKIAIOSFODNN7EXAMPLE, next", "key [redacted], next"),
            ("[hf_abcdefghijklmnopqrstuvwxyz0123456789]", "[[redacted]]"),
            ("x:ghp_abcdefghijklmnopqrstuvwxyz0123456789;", "x:[redacted];"),
            ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefghijk", "[redacted]"),
        ] {
            assert_eq!(text(from), to, "{from}");
        }
    }

    #[test]
    fn long_lists_take_a_time_in_proportion_to_their_length() {
        let of = |count: usize| "tcp://node0001.example.org:29500,".repeat(count);
        let time = |text: &str| {
            let started = std::time::Instant::now();
            assert_eq!(Redactor::default().text(text).len(), text.len());
            started.elapsed()
        };
        let (short, long) = (of(1_000), of(20_000));
        let least = |text: &str| (0..3).map(|_| time(text)).min().unwrap_or_default();
        // Twenty times as long. In proportion to the square, it would take four hundred times as long.
        assert!(least(&long) < least(&short) * 100);
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
        fn a_password_in_a_url_never_stays(password in "[A-Za-z0-9:@%,;/?#(]{8,20}", user in "[a-z]{1,8}") {
            // There another URL would begin.
            prop_assume!(!password.contains("://"));
            let redacted = Redactor::default().text(&format!("--db=postgres://{user}:x{password}@db/runs"));
            prop_assert!(!redacted.contains(&format!("x{password}")), "{}", redacted);
        }
    }
}
