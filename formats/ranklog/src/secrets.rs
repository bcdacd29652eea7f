//! Redaction of secrets in recorded texts: command lines, environment variables, and the program's own labels. Logs and reports
//! are shared with colleagues and attached to issues.
//!
//! A secret is found by the name before it, by its place in a URL or a header, or by its shape. The last words of a name count:
//! `--hf-token` has a secret; `--max-tokens`, `--tokenizer` and `--token-file` have none. This is a heuristic: other secrets stay.
//!
//! Hooks redact labels, so [`Redactor::write_label`] does not allocate.

use std::borrow::Cow;
use std::fmt::{self, Write};
use std::iter;

/// Text that replaces a secret.
pub const REDACTED: &str = "[redacted]";

/// Environment variable with further names of secrets, separated by commas. It covers all names that contain its
/// words in a row.
pub const SECRET_NAMES_VARIABLE: &str = "RANKSCOPE_SECRET_NAMES";

/// Environment variable with additional key prefixes, separated by commas. A word with such a prefix and at least eight more
/// characters is a secret.
pub const SECRET_PREFIXES_VARIABLE: &str = "RANKSCOPE_SECRET_PREFIXES";

/// Minimum number of characters after a prefix from the user.
pub const LEAST_AFTER_PREFIX: usize = 8;

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

/// Characters that a key has after its prefix.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Letters {
    /// Capital letters and digits.
    Capital,
    /// Letters and digits.
    Plain,
    /// Letters, digits and `_-.`, with at least one letter and one digit, because identifiers use the same characters.
    Mixed,
    /// Letters, digits and `_-.`.
    Any,
}

/// Known key formats: prefix, minimum number of further characters, and allowed characters. Sources: the secret-scanning
/// documentation of the issuers.
const SHAPES: [(&str, usize, Letters); 26] = [
    ("AKIA", 16, Letters::Capital),
    ("ASIA", 16, Letters::Capital),
    ("AIza", 35, Letters::Any),
    ("ya29.", 20, Letters::Any),
    ("ghp_", 30, Letters::Plain),
    ("gho_", 30, Letters::Plain),
    ("ghu_", 30, Letters::Plain),
    ("ghs_", 30, Letters::Plain),
    ("ghr_", 30, Letters::Plain),
    ("github_pat_", 30, Letters::Mixed),
    ("glpat-", 16, Letters::Mixed),
    ("hf_", 30, Letters::Plain),
    ("api_org_", 30, Letters::Plain),
    ("nvapi-", 30, Letters::Mixed),
    ("sk-", 20, Letters::Mixed),
    ("sk_live_", 16, Letters::Mixed),
    ("sk_test_", 16, Letters::Mixed),
    ("rk_live_", 16, Letters::Mixed),
    ("xoxb-", 16, Letters::Mixed),
    ("xoxp-", 16, Letters::Mixed),
    ("xoxa-", 16, Letters::Mixed),
    ("xoxr-", 16, Letters::Mixed),
    ("npm_", 30, Letters::Plain),
    ("pypi-", 30, Letters::Mixed),
    ("dop_v1_", 30, Letters::Plain),
    ("eyJ", 30, Letters::Any),
];

/// Words before `token` that make a number after it a measurement, or a symbol after it one of a tokenizer:
/// `time_to_first_token=0.3`, `eos_token=</s>`.
const HARMLESS_TOKENS: [&str; 18] = [
    "first", "next", "last", "per", "output", "input", "prompt", "new", "stop", "pad", "eos", "bos", "cls",
    "sep", "mask", "unk", "special", "draft",
];

/// Prefixes of string literals: `b'…'`.
const LITERALS: [&str; 7] = ["b", "r", "u", "u8", "rb", "br", "f"];

/// Maximum length of a quoted text inside of a value with brackets, in bytes.
const MAX_QUOTED_BYTES: usize = 512;

/// Maximum number of digits of a value after `token` that is a number of tokens.
pub const COUNT_DIGITS: usize = 6;

/// Minimum length of a user name in a URL without password that is taken for a token, as in `https://TOKEN@github.com`.
const TOKEN_AS_USER: usize = 20;

/// Replaces secrets.
#[derive(Clone, Debug)]
pub struct Redactor {
    /// Names of the user, separated by commas.
    names: Cow<'static, str>,
    /// Key prefixes from the user, separated by commas.
    prefixes: Cow<'static, str>,
}

impl Default for Redactor {
    fn default() -> Self {
        Self::of("", "")
    }
}

impl Redactor {
    /// Creates a redactor with additional names and key prefixes, both separated by commas. Allocates nothing.
    pub const fn of(names: &'static str, prefixes: &'static str) -> Self {
        Self {
            names: Cow::Borrowed(names),
            prefixes: Cow::Borrowed(prefixes),
        }
    }

    /// Creates a redactor from the two environment variables, which `variable` looks up.
    pub fn of_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let value = |name| Cow::Owned(variable(name).unwrap_or_default());
        Self {
            names: value(SECRET_NAMES_VARIABLE),
            prefixes: value(SECRET_PREFIXES_VARIABLE),
        }
    }

    /// Creates a redactor from this process's environment.
    pub fn of_environment() -> Self {
        Self::of_variables(|name| std::env::var(name).ok())
    }

    /// Returns true if the value of an option, a variable or a field of this name is a secret.
    pub fn is_secret(&self, name: &str) -> bool {
        if self.names.split(',').any(|further| has_words(name, further)) {
            return true;
        }
        let is_harmless = words(name).next().is_some_and(|first| {
            HARMLESS_BEGINNINGS
                .iter()
                .any(|harmless| is_same_word(first, harmless))
        });
        let last = words(name).last().unwrap_or_default();
        let has_ending = SECRET_ENDINGS.iter().any(|ending| {
            let tail = last.len().checked_sub(ending.len());
            tail.and_then(|tail| last.get(tail..))
                .is_some_and(|tail| tail.eq_ignore_ascii_case(ending))
        });
        !is_harmless && (has_ending || SECRET_NAMES.iter().any(|secret| ends_with_words(name, secret)))
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
        let mut out = String::with_capacity(text.len());
        // A string takes everything.
        let _ = self.write_text(text, &mut out);
        out
    }

    /// Writes what [`text`](Self::text) returns. Allocates nothing.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_text(&self, text: &str, out: &mut impl Write) -> fmt::Result {
        self.write(text, true, false, out)
    }

    /// Returns a name that a program gave, without its secrets. Unlike [`text`](Self::text), it does not take `-p2p` for a password.
    pub fn label(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        // A string takes everything.
        let _ = self.write_label(text, false, &mut out);
        out
    }

    /// Writes what [`label`](Self::label) returns. `is_cut`: the end of the text may be missing. Allocates nothing.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_label(&self, text: &str, is_cut: bool, out: &mut impl Write) -> fmt::Result {
        self.write(text, false, is_cut, out)
    }

    /// Returns true if a word has a key prefix. The rest of the key may be missing.
    pub fn begins_like_key(&self, word: &str) -> bool {
        let starts = SHAPES.iter().map(|&(start, ..)| start);
        let further = self.prefixes.split(',').map(str::trim);
        starts
            .chain(further.filter(|start| !start.is_empty()))
            .any(|start| word.starts_with(start))
    }

    fn write(
        &self,
        text: &str,
        may_be_command_line: bool,
        is_cut: bool,
        out: &mut impl Write,
    ) -> fmt::Result {
        let has_password_option = text.split_whitespace().any(is_password_program);
        let reading = Reading {
            may_be_command_line,
            names_password_program: has_password_option,
            is_cut,
        };
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let end = rest.find(|letter| !is_of_name(letter)).unwrap_or(rest.len());
            if end == 0 {
                out.write_char(first)?;
                rest = &rest[first.len_utf8()..];
                continue;
            }
            let (name, after) = rest.split_at(end);
            rest = self.put_name(name, after, reading, out)?;
        }
        Ok(())
    }

    /// Appends a name, and the secret after it. Returns the rest of the text.
    fn put_name<'text>(
        &self,
        name: &str,
        after: &'text str,
        reading: Reading,
        out: &mut impl Write,
    ) -> Result<&'text str, fmt::Error> {
        if let Some(address) = after.strip_prefix("://") {
            out.write_str(name)?;
            out.write_str("://")?;
            return self.put_user_of_url(address, out);
        }
        if reading.may_be_command_line && is_password_option(name, reading.names_password_program) {
            out.write_str("-p")?;
            out.write_str(REDACTED)?;
            return Ok(&after[after.find(is_end_of_value).unwrap_or(after.len())..]);
        }
        out.write_str(self.by_shape(name))?;
        let is_field = FIELDS.iter().any(|field| name.eq_ignore_ascii_case(field));
        let sign = sign_bytes(after);
        if sign > 0 && self.is_secret(name) {
            out.write_str(&after[..sign])?;
            let value = &after[sign..];
            if is_no_secret_token(name, value) {
                return Ok(value);
            }
            return put_hidden(value, is_field, reading.is_cut, out);
        }
        let spaces = after.len() - after.trim_start_matches(' ').len();
        let (gap, value) = after.split_at(spaces);
        if spaces == 0 || value.is_empty() || value.starts_with('-') {
            return Ok(after);
        }
        if name.eq_ignore_ascii_case("bearer") {
            out.write_str(gap)?;
            return put_hidden(value, true, reading.is_cut, out);
        }
        let is_value = self.is_secret_option(name) || (name == "-p" && reading.names_password_program);
        if is_value {
            out.write_str(gap)?;
            return put_hidden(value, false, reading.is_cut, out);
        }
        let word = &value[..value.find(is_end_of_value).unwrap_or(value.len())];
        if let Some(user) = user_of(name, word) {
            write!(out, "{gap}{user}:{REDACTED}")?;
            return Ok(&value[word.len()..]);
        }
        Ok(after)
    }

    /// Returns true if the next argument is the secret value of this one.
    fn is_secret_option(&self, argument: &str) -> bool {
        argument.starts_with('-') && argument.chars().all(is_of_name) && self.is_secret(argument)
    }
    /// Appends the user of the URL whose part after `://` a text begins with. Returns the rest of the text.
    fn put_user_of_url<'text>(
        &self,
        text: &'text str,
        out: &mut impl Write,
    ) -> Result<&'text str, fmt::Error> {
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
                _ => return Ok(text),
            },
        };
        match user.split_once(':') {
            Some((name, _)) => write!(out, "{name}:{REDACTED}")?,
            None if user.len() >= TOKEN_AS_USER => out.write_str(REDACTED)?,
            None => out.write_str(self.by_shape(user))?,
        }
        Ok(&text[user.len()..])
    }

    /// Returns [`REDACTED`] if a word looks like a key, otherwise the word.
    fn by_shape<'text>(&self, word: &'text str) -> &'text str {
        let is_of =
            |&(start, least, letters): &(&str, usize, Letters)| has_key_after(word, start, least, letters);
        // Other texts that are encoded from JSON begin like a JSON web token.
        let is_encoded_json = word.starts_with("eyJ") && word.matches('.').count() != 2;
        let is_further =
            |start: &str| !start.is_empty() && has_key_after(word, start, LEAST_AFTER_PREFIX, Letters::Any);
        let is_key = SHAPES.iter().any(is_of) && !is_encoded_json;
        if is_key || self.prefixes.split(',').map(str::trim).any(is_further) {
            REDACTED
        } else {
            word
        }
    }
}

/// How to read a text.
#[derive(Clone, Copy)]
struct Reading {
    /// True if the text may be a command line, in which `-p` may be a password.
    may_be_command_line: bool,
    /// True if the text names a program whose option `-p` is a password.
    names_password_program: bool,
    /// True if the end of the text may be missing.
    is_cut: bool,
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

/// Returns the size of the sign between a name and its value: `=`, `: `, `=>`, `": "` of JSON. 0: there is none.
fn sign_bytes(text: &str) -> usize {
    let rest = text
        .trim_start_matches('\\')
        .trim_start_matches(['\'', '"', '`'])
        .trim_start_matches(' ');
    // `Token::sample` is a path of a program.
    if rest.starts_with("::") {
        return 0;
    }
    let sign = [":=", "=>", "==", "=", ":"]
        .into_iter()
        .find_map(|sign| rest.strip_prefix(sign));
    match sign {
        Some(rest) => text.len() - rest.trim_start_matches([' ', '\t']).len(),
        None => 0,
    }
}

/// Returns true for values after `token` that are no secret: `token: 5`, `token: #`, whose number is kept separately,
/// `time_to_first_token=0.3`, `eos_token=</s>`.
fn is_no_secret_token(name: &str, value: &str) -> bool {
    let skipped = words(name).count().saturating_sub(2);
    let mut last = words(name).skip(skipped);
    let (before, token) = (last.next().unwrap_or_default(), last.next());
    if !is_same_word(token.unwrap_or(before), "token") {
        return false;
    }
    let value = &value[..value.find(is_end_of_value).unwrap_or(value.len())];
    let is_count = !value.is_empty()
        && value.len() <= COUNT_DIGITS
        && value.bytes().all(|letter| letter.is_ascii_digit());
    let is_harmless = token.is_some() && HARMLESS_TOKENS.iter().any(|word| is_same_word(before, word));
    is_count || value == "#" || (is_harmless && (value.starts_with('<') || value.parse::<f64>().is_ok()))
}

/// Appends what replaces the value at the start of a text. Returns the rest of the text. `is_field`: the value can have several
/// words.
fn put_hidden<'text>(
    text: &'text str,
    is_field: bool,
    is_cut: bool,
    out: &mut impl Write,
) -> Result<&'text str, fmt::Error> {
    if let Some(rest) = text.strip_prefix(REDACTED) {
        out.write_str(REDACTED)?;
        return Ok(rest);
    }
    for quote in ["\\\"", "\\'", "\"", "'", "`"] {
        if let Some(inside) = text.strip_prefix(quote) {
            let end = end_of_quoted(inside, quote).unwrap_or(inside.len());
            out.write_str(quote)?;
            if end > 0 {
                out.write_str(REDACTED)?;
            }
            return Ok(&inside[end..]);
        }
    }
    let mut end = end_of_value(text, is_cut);
    let has_scheme = SCHEMES
        .iter()
        .any(|scheme| text[..end].eq_ignore_ascii_case(scheme));
    if is_field || has_scheme {
        let is_end = |letter: char| letter != ' ' && is_end_of_value(letter);
        end = text.find(is_end).unwrap_or(text.len());
        end = text[..end].trim_end().len();
    }
    if end > 0 {
        out.write_str(REDACTED)?;
    }
    Ok(&text[end..])
}

/// Returns the position of the quote that ends a quoted text. A backslash before a quote makes it a letter.
fn end_of_quoted(inside: &str, quote: &str) -> Option<usize> {
    if quote.starts_with('\\') {
        return inside.find(quote);
    }
    let mut is_escaped = false;
    for (at, letter) in inside.char_indices() {
        if !is_escaped && inside[at..].starts_with(quote) {
            return Some(at);
        }
        is_escaped = letter == '\\' && !is_escaped;
    }
    None
}

/// Returns the length of a value that is not in quotes. It may have brackets and literals: `Some("…")`, `['…', '…']`, `b'…'`.
fn end_of_value(text: &str, is_cut: bool) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while let Some(letter) = text[at..].chars().next() {
        let rest = &text[at + letter.len_utf8()..];
        match letter {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            '"' | '\'' | '`'
                if depth > 0
                    || LITERALS
                        .iter()
                        .any(|literal| literal.eq_ignore_ascii_case(&text[..at])) =>
            {
                let quote = &text[at..=at];
                // A longer search would make long texts slow if they have quotes that nothing closes.
                let near = &rest[..rest.floor_char_boundary(MAX_QUOTED_BYTES)];
                if let Some(inside) = end_of_quoted(near, quote) {
                    at += 1 + inside;
                    if depth == 0 {
                        return at + 1;
                    }
                }
            }
            _ if depth == 0 && is_end_of_value(letter) => return at,
            _ => {}
        }
        at += text[at..].chars().next().map_or(1, char::len_utf8);
    }
    if depth == 0 || is_cut {
        return text.len();
    }
    // A bracket that nothing closes is a letter of the value.
    text.find(char::is_whitespace).unwrap_or(text.len())
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

/// Returns true if a word is `start` and then at least `least` letters of a key.
fn has_key_after(word: &str, start: &str, least: usize, letters: Letters) -> bool {
    let Some(rest) = word.strip_prefix(start) else {
        return false;
    };
    let belongs = |letter: char| match letters {
        Letters::Capital => letter.is_ascii_uppercase() || letter.is_ascii_digit(),
        Letters::Plain => letter.is_ascii_alphanumeric(),
        Letters::Mixed | Letters::Any => letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.'),
    };
    let has = |test: fn(&char) -> bool| rest.chars().any(|letter| test(&letter));
    let is_mixed = || has(char::is_ascii_digit) && has(char::is_ascii_alphabetic);
    rest.chars().count() >= least && rest.chars().all(belongs) && (letters != Letters::Mixed || is_mixed())
}

/// Returns the words of a name. Words are separated by punctuation, and by a capital letter after a small one. Digits at the
/// end of a word are left out.
fn words(name: &str) -> impl Iterator<Item = &str> + Clone {
    let mut rest = name;
    let parts = iter::from_fn(move || {
        rest = rest.trim_start_matches(|letter: char| !letter.is_alphanumeric());
        let mut after_small = false;
        let is_break = |letter: char| {
            let is_break = !letter.is_alphanumeric() || (letter.is_uppercase() && after_small);
            after_small = letter.is_lowercase();
            is_break
        };
        let (word, after) = rest.split_at(rest.find(is_break).unwrap_or(rest.len()));
        rest = after;
        (!word.is_empty()).then_some(word)
    });
    parts
        .map(|word| word.trim_end_matches(|letter: char| letter.is_ascii_digit()))
        .filter(|word| !word.is_empty())
}

/// Returns the letters of a word in lower case.
fn small(word: &str) -> impl Iterator<Item = char> {
    word.chars().flat_map(char::to_lowercase)
}

/// Returns true if two words differ at most in their capital letters.
fn is_same_word(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other) || small(one).eq(small(other))
}

fn are_words<'text>(found: impl Iterator<Item = &'text str>, wanted: &str) -> bool {
    // Both have equally many.
    found
        .zip(words(wanted))
        .all(|(one, other)| is_same_word(one, other))
}

/// Returns true if the name ends with these words.
fn ends_with_words(name: &str, secret: &str) -> bool {
    let skipped = words(name).count().checked_sub(words(secret).count());
    skipped.is_some_and(|skipped| are_words(words(name).skip(skipped), secret))
}

/// Returns true if the name contains these words in sequence. An empty sequence never matches.
fn has_words(name: &str, further: &str) -> bool {
    let wanted = words(further).count();
    let mut rest = words(name);
    let mut left = rest.clone().count();
    while wanted > 0 && left >= wanted {
        if are_words(rest.clone().take(wanted), further) {
            return true;
        }
        rest.next();
        left -= 1;
    }
    false
}

/// Text in a buffer of N bytes. What does not fit is cut.
pub struct FixedText<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> FixedText<N> {
    /// Creates an empty text.
    pub const fn new() -> Self {
        Self {
            bytes: [0; N],
            length: 0,
        }
    }

    /// Returns the text. It is UTF-8.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl<const N: usize> Default for FixedText<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Write for FixedText<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut take = text.len().min(N - self.length);
        while !text.is_char_boundary(take) {
            take -= 1;
        }
        self.bytes[self.length..self.length + take].copy_from_slice(&text.as_bytes()[..take]);
        self.length += take;
        if take == text.len() {
            Ok(())
        } else {
            Err(fmt::Error)
        }
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
        let redactor = Redactor::of("license, site code", "");
        assert!(redactor.is_secret("MLM_LICENSE"));
        assert!(redactor.is_secret("--siteCode") && redactor.is_secret("SITE_CODE_2"));
        assert!(!redactor.is_secret("--code") && redactor.is_secret("TOKEN"));
        assert_eq!(redactor.value("LICENSE_FILE", "1234"), REDACTED);
        assert_eq!(redactor.value("NCCL_DEBUG", "INFO"), "INFO");
    }

    #[test]
    fn users_add_beginnings_of_keys() {
        let redactor = Redactor::of("", "acme_, corp-");
        for (from, to) in [
            ("load acme_12345678 now", "load [redacted] now"),
            ("[corp-abcdefgh.ij]", "[[redacted]]"),
            ("acme_1234567, corporate, acme_", "acme_1234567, corporate, acme_"),
        ] {
            assert_eq!(redactor.text(from), to);
        }
        assert_eq!(text("acme_12345678"), "acme_12345678");
    }

    #[test]
    fn labels_that_only_look_like_secrets_stay() {
        for label in [
            "forward",
            "ProfilerStep#7",
            "nccl:all_reduce",
            "default_pg/0//cuda//0",
            "step 12: loss=0.25, tokens=4096",
            "DDP::forward-p2p",
            "aten::mm: [64, 64]",
            "void gemm<float, 128>(Params)",
            "num_tokens: 5",
            "token: 5",
            "decode token: #",
            "time_to_first_token=0.31, time_per_output_token: 12 ms",
            "eos_token=</s>",
            "send -p2p -pp1",
            "NextToken::forward, per_token::quant<float>()",
            "hf_T5_large.encoder.block.0.layer.0.SelfAttention",
            "hf_hub_download_with_retries_and_cache",
            "ghs_group_hidden_states_accumulate_grad",
            "npm_nodes_partition_manager_rebalance_v2",
            "sk-learn_model_evaluation",
        ] {
            assert_eq!(Redactor::default().label(label), label);
        }
    }

    #[test]
    fn values_of_programs_are_hidden_to_their_end() {
        for (from, to) in [
            (
                "Config { hf_token: Some(\"S3cret S3cret\"), n: 1 }",
                "Config { hf_token: [redacted], n: 1 }",
            ),
            ("api_key=SecretStr('S3cret, x')", "api_key=[redacted]"),
            ("password=b'S3cret' n", "password=[redacted] n"),
            (
                "{'api_key': ['S3cret', 'S4cret'], 'n': 1}",
                "{'api_key': [redacted], 'n': 1}",
            ),
            ("password: {a: S3cret}, n", "password: [redacted], n"),
            ("password=`S3cret`", "password=`[redacted]`"),
            (
                "{\"password\": \"ab\\\"S3cret\"}",
                "{\"password\": \"[redacted]\"}",
            ),
            ("token => S3cret", "token => [redacted]"),
            ("token := S3cret", "token := [redacted]"),
            ("token:\tS3cret", "token:\t[redacted]"),
            ("password=ab(S3cret n", "password=[redacted] n"),
            ("f(token=S3cret)", "f(token=[redacted])"),
            (
                "--new-token=S3cret NEXT_TOKEN=S3cret",
                "--new-token=[redacted] NEXT_TOKEN=[redacted]",
            ),
            ("api_token=1234567890", "api_token=[redacted]"),
        ] {
            assert_eq!(text(from), to);
        }
    }

    proptest! {
        #[test]
        fn a_short_buffer_gets_the_beginning(text in "([a-z]{1,9}(=|: |://|@| ){0,1}){0,19}") {
            let mut buffer = FixedText::<64>::new();
            let _ = Redactor::default().write_text(&text, &mut buffer);
            let whole = Redactor::default().text(&text);
            prop_assert!(whole.as_bytes().starts_with(buffer.as_bytes()));
            prop_assert!(buffer.as_bytes().len() == whole.len().min(64));
        }

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
