//! A session without what identifies its site: names of hosts and users, paths, and addresses. For reports that leave a
//! company.
//!
//! Every text of the session is rewritten, so a text that is added later cannot be forgotten.

use rankscope_formats::session::Session;
use rankscope_ranklog::secrets::REDACTED;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Text that replaces the value of a variable or an option that names a site.
const REMOVED: &str = "[removed]";

/// Parts of names of environment variables whose values name hosts, users or places.
const NAMES_OF_SITES: [&str; 15] = [
    "ADDR",
    "HOST",
    "NODE",
    "USER",
    "ACCOUNT",
    "PARTITION",
    "CLUSTER",
    "PATH",
    "DIR",
    "URL",
    "URI",
    "ENDPOINT",
    "LAUNCH",
    "JOB_NAME",
    "PRELOAD",
];

/// Words of options whose values name hosts, users or places: `--db-host gpu07`, `--user=ann`. A path is shortened instead.
const OPTIONS_OF_SITES: [&str; 15] = [
    "account",
    "addr",
    "address",
    "cluster",
    "endpoint",
    "host",
    "hostname",
    "hosts",
    "login",
    "nodelist",
    "owner",
    "partition",
    "server",
    "user",
    "username",
];

/// Words in names of variables whose value is the name of a user: `SLURM_JOB_USER`.
const NAMES_OF_USERS: [&str; 3] = ["USER", "USERNAME", "LOGNAME"];

/// Users of many machines. Their names identify nobody, and are words of ordinary texts.
const COMMON_USERS: [&str; 5] = ["admin", "nobody", "root", "ubuntu", "user"];

/// Maximum length of the name of a host in the name of a log.
const MAX_NAME_IN_FILE: usize = 64;

/// Properties that identify a machine.
const IDENTITIES: [&str; 2] = ["boot_id", "time_namespace"];

/// Beginnings of paths that every machine has.
const COMMON_PATHS: [&str; 7] = [
    "/lib/",
    "/lib64/",
    "/proc/",
    "/sys/",
    "/usr/bin/",
    "/usr/lib/",
    "/usr/lib64/",
];

/// Fields with a fixed set of values. They never name a site.
const VOCABULARY: [&str; 20] = [
    "confidence",
    "cost_basis",
    "counter",
    "ending",
    "identity",
    "identity_source",
    "is",
    "kind",
    "library",
    "method",
    "operation",
    "property",
    "role",
    "role_source",
    "scope",
    "severity",
    "source",
    "state",
    "unit",
    "version",
];

/// Folders of the homes of users.
const HOMES: [&str; 2] = ["/home/", "/Users/"];

/// Returns the session without names of hosts and users, paths, and addresses. Hosts are `host-0` and so on, in their order.
///
/// # Errors
///
/// If the session cannot be converted to its document and back. No session of this version does that.
pub fn for_sharing(session: &Session) -> Result<Session, serde_json::Error> {
    let mut document = serde_json::to_value(session)?;
    let mut names = Names::default();
    for (index, host) in session.hosts.iter().enumerate() {
        names.add(&host.name, &format!("host-{index}"));
    }
    names.find_users(&document);
    rewrite(&mut document, &names);
    serde_json::from_value(document)
}

/// Names that are replaced, each with its replacement.
#[derive(Debug, Default)]
struct Names(BTreeMap<String, String>);

impl Names {
    fn add(&mut self, name: &str, replacement: &str) {
        if name.is_empty() {
            return;
        }
        // The name of a host alone and with its domain, and as names of logs have it.
        let short = name.split('.').next().unwrap_or(name);
        let in_file = |name: &str| -> String {
            let letters = name.chars().map(|letter| {
                if letter.is_ascii_alphanumeric() || letter == '.' {
                    letter
                } else {
                    '_'
                }
            });
            letters.take(MAX_NAME_IN_FILE).collect()
        };
        for name in [name.to_owned(), short.to_owned(), in_file(name), in_file(short)] {
            if !name.is_empty() {
                self.0.entry(name).or_insert_with(|| replacement.to_owned());
            }
        }
    }

    /// Adds a text that is the name of a user, unless it is an ordinary word.
    fn add_user(&mut self, name: &str) {
        let is_user = name.len() > 1
            && name.starts_with(char::is_alphanumeric)
            && name.chars().all(is_of_name)
            && name.contains(char::is_alphabetic)
            && !COMMON_USERS.contains(&name);
        if is_user {
            self.0.entry(name.to_owned()).or_insert_with(|| "user".to_owned());
        }
    }

    /// Adds the users whose homes are in any text, and those that a variable names.
    fn find_users(&mut self, value: &Value) {
        match value {
            Value::String(text) => {
                let users: BTreeSet<&str> = HOMES
                    .iter()
                    // No user precedes the first home.
                    .flat_map(|home| text.split(home).skip(1))
                    .map(|rest| rest.split(|letter| !is_of_name(letter)).next().unwrap_or(""))
                    .collect();
                for user in users {
                    self.add_user(user);
                }
            }
            Value::Array(values) => values.iter().for_each(|value| self.find_users(value)),
            Value::Object(fields) => {
                let name = variable(fields).map(str::to_ascii_uppercase);
                let user = fields.get("value").and_then(Value::as_str);
                if let (Some(name), Some(user)) = (name, user)
                    && name.split('_').any(|word| NAMES_OF_USERS.contains(&word))
                {
                    self.add_user(user);
                }
                fields.values().for_each(|value| self.find_users(value));
            }
            _ => {}
        }
    }

    /// Replaces the names where they are whole words.
    fn replace<'text>(&self, text: &'text str) -> Cow<'text, str> {
        let mut out = Cow::Borrowed(text);
        // Longer names first: one may contain another.
        let mut names: Vec<(&String, &String)> = self.0.iter().collect();
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        for (name, replacement) in names {
            if out.contains(name.as_str()) {
                out = Cow::Owned(replace_word(&out, name, replacement));
            }
        }
        out
    }
}

/// Returns the name of the environment variable whose value these fields contain.
fn variable(fields: &serde_json::Map<String, Value>) -> Option<&str> {
    fields.get("property")?.as_str()?.strip_prefix("env.")
}

fn is_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.')
}

fn replace_word(text: &str, word: &str, replacement: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let (before, from) = rest.split_at(at);
        let after = &from[word.len()..];
        out.push_str(before);
        let follows_word = out.chars().next_back().is_some_and(char::is_alphanumeric);
        let precedes_word = after.chars().next().is_some_and(char::is_alphanumeric);
        out.push_str(if follows_word || precedes_word {
            word
        } else {
            replacement
        });
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Rewrites all texts of a value.
fn rewrite(value: &mut Value, names: &Names) {
    match value {
        Value::String(text) => *text = rewritten(text, names),
        Value::Array(values) => values.iter_mut().for_each(|value| rewrite(value, names)),
        Value::Object(fields) => {
            for identity in IDENTITIES {
                if let Some(value @ Value::String(_)) = fields.get_mut(identity) {
                    *value = Value::Null;
                }
            }
            // One property of the processes.
            let is_of_site = variable(fields).is_some_and(|name| {
                let name = name.to_ascii_uppercase();
                NAMES_OF_SITES.iter().any(|part| name.contains(part))
            });
            if let (true, Some(value)) = (is_of_site, fields.get_mut("value")) {
                *value = REMOVED.into();
            }
            if let Some(Value::Array(directories)) = fields.get_mut("directories") {
                for directory in directories.iter_mut() {
                    let last = directory
                        .as_str()
                        .and_then(|path| path.trim_end_matches('/').rsplit('/').next());
                    *directory = last.unwrap_or("").into();
                }
            }
            for (key, value) in fields.iter_mut() {
                let is_vocabulary = value.is_string() && VOCABULARY.contains(&key.as_str());
                if !is_vocabulary {
                    rewrite(value, names);
                }
            }
        }
        _ => {}
    }
}

/// Returns a text without names, paths and addresses.
fn rewritten(text: &str, names: &Names) -> String {
    let without_options = without_options(text);
    let without_paths = without_paths(&without_options);
    let named = names.replace(&without_paths);
    without_addresses(&named)
}

/// Removes the values of options and settings that name hosts, users or places: `--host gpu07`, `cluster.host=gpu07`. Also
/// removes the name before a redacted secret: `ann:[redacted]`.
///
/// Numbers, program files and the machine's own addresses stay. [`without_paths`] shortens paths.
fn without_options(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut is_value = false;
    for piece in text.split_inclusive(char::is_whitespace) {
        let word = piece.trim_end();
        let (option, value) = match word.split_once('=') {
            Some((option, value)) => (option, Some(value)),
            None => (word, None),
        };
        let is_of_site = names_a_site(option) && (value.is_some() || option.starts_with('-'));
        match value {
            Some(value) if is_of_site && !is_no_name(value) => {
                out.push_str(&format!("{option}={REMOVED}"));
            }
            _ if is_value && !word.starts_with('-') && !is_no_name(word) => out.push_str(REMOVED),
            _ => out.push_str(&without_secret_owner(word)),
        }
        out.push_str(&piece[word.len()..]);
        is_value = is_of_site && value.is_none();
    }
    out
}

/// Returns true for an option or a setting whose value names a host, a user or a place. `-H` is that of `mpirun`.
fn names_a_site(option: &str) -> bool {
    option == "-H"
        || option.split(['-', '_', '.']).any(|part| {
            let part = part.to_ascii_lowercase();
            OPTIONS_OF_SITES.contains(&part.as_str())
        })
}

/// Returns true if no part of a list names a host, a user or a place.
fn is_no_name(value: &str) -> bool {
    value.split(',').all(|part| {
        let host = part.split(':').next().unwrap_or(part);
        let is_path = ["/", "./", "../", "~"]
            .iter()
            .any(|start| part.starts_with(start));
        let is_program = [".py", ".sh"].iter().any(|end| part.ends_with(end));
        let is_own = host == "localhost" || host.starts_with("127.");
        part == REDACTED || is_path || is_program || is_own || !part.contains(char::is_alphabetic)
    })
}

/// Returns a word without the name before a redacted secret.
fn without_secret_owner(word: &str) -> Cow<'_, str> {
    let Some((before, after)) = word.split_once(&format!(":{REDACTED}")) else {
        return Cow::Borrowed(word);
    };
    let start = before.rfind(['=', '\'', '"', '/']).map_or(0, |at| at + 1);
    if start == before.len() {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("{}{REMOVED}:{REDACTED}{after}", &before[..start]))
}

/// Shortens each path to its last part, and each URL to its scheme.
fn without_paths(text: &str) -> String {
    let is_separator = |letter: char| {
        letter.is_whitespace() || matches!(letter, '\'' | '"' | ',' | '=' | ';' | '>' | '<' | '|')
    };
    let mut out = String::with_capacity(text.len());
    for piece in text.split_inclusive(is_separator) {
        let word = piece.trim_end_matches(is_separator);
        match (word.split_once("://"), word.find('/')) {
            (Some((scheme, _)), _) => out.push_str(&format!("{scheme}://…")),
            (None, Some(at)) if is_start_of_path(&word[..at]) => {
                let home = word[..at].rfind('~').unwrap_or(at);
                out.push_str(&word[..home]);
                out.push_str(&shortened(&word[home..]));
            }
            (None, Some(_)) if is_relative_path(word) => out.push_str(&shortened(word)),
            _ => out.push_str(word),
        }
        out.push_str(&piece[word.len()..]);
    }
    out
}

/// Returns true if a slash after this text begins an absolute path, or one in the home of a user: it is the first letter, or
/// follows a bracket, a colon, `~USER` or a short option.
fn is_start_of_path(before: &str) -> bool {
    before.is_empty()
        || before.starts_with('~')
        || before.ends_with([':', '(', '[', '{', '@', '&', '!'])
        || (before.len() == 2 && before.starts_with('-'))
}

/// Returns true for a path such as `../acme/train.py` or `projects/acme/x.py`, and false for `and/or` and `3/4`.
fn is_relative_path(word: &str) -> bool {
    let last = word.rsplit('/').next().unwrap_or(word);
    let has_extension = last.rsplit_once('.').is_some_and(|(name, extension)| {
        !name.is_empty() && extension.starts_with(|letter: char| letter.is_alphabetic())
    });
    has_extension || word.starts_with("./") || word.starts_with("../")
}

/// Shortens a path, or each of several with colons between them.
fn shortened(paths: &str) -> String {
    let parts = paths.split(':').map(|path| {
        if COMMON_PATHS.iter().any(|common| path.starts_with(common)) {
            return path.to_owned();
        }
        match path.trim_end_matches('/').rsplit_once('/') {
            Some((_, last)) => format!("…/{last}"),
            None => path.to_owned(),
        }
    });
    parts.collect::<Vec<_>>().join(":")
}

/// Replaces addresses of hosts. Those of the machine itself stay.
fn without_addresses(text: &str) -> String {
    let is_inside = |letter: char| letter.is_alphanumeric() || matches!(letter, '.' | ':');
    let is_remote = |word: &str| {
        let address = word.parse::<IpAddr>();
        address.is_ok_and(|address| !address.is_loopback() && !address.is_unspecified())
    };
    let mut out = String::with_capacity(text.len());
    for piece in text.split_inclusive(|letter: char| !is_inside(letter)) {
        let word = piece.trim_end_matches(|letter: char| !letter.is_alphanumeric());
        if is_remote(word) {
            out.push_str("address");
        } else {
            // With an interface before it, or a port behind it.
            let parts = word
                .split(':')
                .map(|part| if is_remote(part) { "address" } else { part });
            out.push_str(&parts.collect::<Vec<_>>().join(":"));
        }
        out.push_str(&piece[word.len()..]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let mut names = Names::default();
        names.add("gpu07.cluster.example.org", "host-0");
        names.add("ann", "user");
        names
    }

    #[test]
    fn texts_lose_hosts_users_paths_and_addresses() {
        for (from, to) in [
            (
                "/home/ann/jobs/train.py --out=/data/x --lr 1e-3",
                "…/train.py --out=…/x --lr 1e-3",
            ),
            ("python -u train.py", "python -u train.py"),
            (
                "gpu07-1870-0fbd.rslog on gpu07.cluster.example.org",
                "host-0-1870-0fbd.rslog on host-0",
            ),
            ("annual plans of ann", "annual plans of user"),
            (
                "10.3.1.7:29500 and 127.0.0.1:29500",
                "address:29500 and 127.0.0.1:29500",
            ),
            ("fd00::12 is remote, (10.0.0.1).", "address is remote, (address)."),
            ("c10d::allreduce_ 2.28.9", "c10d::allreduce_ 2.28.9"),
            ("s3://bucket/run1 and and/or 3/4", "s3://… and and/or 3/4"),
            (
                "/usr/lib/libnccl.so.2 -I/opt/x/include",
                "/usr/lib/libnccl.so.2 -I…/include",
            ),
            ("all-reduce 1.5 MiB at 12:30:01", "all-reduce 1.5 MiB at 12:30:01"),
            (
                "python x.py --db-host=db.acme --user bob --db_hostname db7 --lr 1e-3",
                "python x.py --db-host=[removed] --user [removed] --db_hostname [removed] --lr 1e-3",
            ),
            (
                "curl -u bob:[redacted] --host 127.0.0.1 --hosts 4 --ghost x",
                "curl -u [removed]:[redacted] --host 127.0.0.1 --hosts 4 --ghost x",
            ),
            (
                "torchrun --rdzv-endpoint=gpu9:29400 --rdzv-endpoint localhost:0 --user",
                "torchrun --rdzv-endpoint=[removed] --rdzv-endpoint localhost:0 --user",
            ),
            (
                "--hostfile=/data/hosts.txt --host /x/y",
                "--hostfile=…/hosts.txt --host …/y",
            ),
            (
                "x --hosts=[gpu07,gpu08] --host localhost:1,gpu07:2 --user=acme/ann",
                "x --hosts=[removed] --host [removed] --user=[removed]",
            ),
            (
                "mpirun -H gpu07,gpu08 python -u x.py cluster.host=gpu07",
                "mpirun -H [removed] python -u x.py cluster.host=[removed]",
            ),
            (
                "--auth=bob:[redacted] 'bob:[redacted]' bob@acme.com:[redacted] --user [redacted]",
                "--auth=[removed]:[redacted] '[removed]:[redacted]' [removed]:[redacted] --user [redacted]",
            ),
            ("x --pin-host train.py --lr 0.1", "x --pin-host train.py --lr 0.1"),
        ] {
            assert_eq!(rewritten(from, &names()), to);
        }
    }

    #[test]
    fn logs_have_names_of_hosts_in_another_form() {
        let mut names = Names::default();
        names.add("gpu-node-07.example.org", "host-3");
        assert_eq!(
            rewritten("gpu_node_07-1870-0fbd.rslog", &names),
            "host-3-1870-0fbd.rslog"
        );
        assert_eq!(
            rewritten("gpu_node_07.example.org-1-2.rslog", &names),
            "host-3-1-2.rslog"
        );
        assert_eq!(rewritten("on gpu-node-07", &names), "on host-3");
    }

    #[test]
    fn users_are_found_in_variables_and_replaced_everywhere() {
        let document = serde_json::json!([
            { "property": "env.SLURM_JOB_USER", "value": "bob", "ranks": 2 },
            { "property": "env.LOGNAME", "value": "root", "ranks": 2 },
            { "property": "env.USER", "value": "", "ranks": 2 },
            { "property": "env.SLURM_JOB_USERID", "value": "1001", "ranks": 2 },
            { "text": "/Users/eve/x of /home/../data, /home/.snapshots/y, /home/ubuntu/z" },
            { "property": "env.SLURM_JOB_USER", "value": "j.doe", "ranks": 2 },
        ]);
        let mut names = names();
        names.find_users(&document);
        assert_eq!(
            rewritten("run_bob of bob and eve, as root, in bobsled 1001", &names),
            "run_user of user and user, as root, in bobsled 1001"
        );
        assert_eq!(
            rewritten("make -j 4 by j.doe on ubuntu .snapshots", &names),
            "make -j 4 by user on ubuntu .snapshots"
        );
    }

    #[test]
    fn values_of_variables_that_name_a_site_are_removed() {
        let mut value = serde_json::json!([
            { "property": "env.MASTER_ADDR", "value": "gpu07", "ranks": 2 },
            { "property": "env.SLURM_JOB_USER", "value": "bob", "ranks": 2 },
            { "property": "env.NCCL_DEBUG", "value": "INFO", "ranks": 2 },
            { "property": "env.OMPI_MCA_orte_node_regex", "value": "gpu[7-9]", "ranks": 2 },
            { "boot_id": "da39a3ee", "name": "gpu07", "role": "ann", "host": "of ann" },
            { "directories": ["shared/acme/run1/", "/data/run2"] },
        ]);
        rewrite(&mut value, &names());
        assert_eq!(
            value,
            serde_json::json!([
                { "property": "env.MASTER_ADDR", "value": REMOVED, "ranks": 2 },
                { "property": "env.SLURM_JOB_USER", "value": REMOVED, "ranks": 2 },
                { "property": "env.NCCL_DEBUG", "value": "INFO", "ranks": 2 },
                { "property": "env.OMPI_MCA_orte_node_regex", "value": REMOVED, "ranks": 2 },
                { "boot_id": null, "name": "host-0", "role": "ann", "host": "of user" },
                { "directories": ["run1", "run2"] },
            ])
        );
    }
}
