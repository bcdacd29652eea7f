//! Words that make a reader stop: they do not appear in comments, messages and documents.
//!
//! The list holds words of which every use has a plainer form in the field's terms. CONTRIBUTING.md shows it to people.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// A word or phrase, in lower case, and what to write instead.
const AVOID: [(&str, &str); 16] = [
    ("told", "reported, recorded, known"),
    ("tells of", "describes, reports"),
    ("tell of", "describe, report"),
    ("told apart", "distinguished"),
    ("tell apart", "distinguish"),
    ("so many", "N, this many"),
    ("whoever", "the caller that, a rank that"),
    ("besides", "also"),
    ("stands", "is, is listed"),
    ("lies", "is, is located"),
    ("lets go", "emits, releases"),
    ("no word of", "nothing about"),
    ("the same since", "unchanged since"),
    ("of what the", "name the thing"),
    ("lie around", "remain"),
    ("lies around", "remains"),
];

/// Folders and files of the project, by path from its root.
const PLACES: [&str; 16] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "BENCHMARKS.md",
    "Makefile",
    "Cargo.toml",
    "action.yml",
    "formats",
    "interpose",
    "collector",
    "viewer",
    "tests",
    "examples",
    "docs",
    "packaging",
];

/// Not written here, or generated, or a list of these words.
const LEFT_OUT: [&str; 8] = [
    "ddp_gloo",
    "hta",
    "snapshots",
    "corpus",
    "node_modules",
    "target",
    "bindings.rs",
    "plain_english.rs",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn files(path: &Path, found: &mut Vec<PathBuf>) {
    if LEFT_OUT.iter().any(|name| path.ends_with(name)) {
        return;
    }
    if path.is_dir() {
        let mut inside: Vec<PathBuf> = fs::read_dir(path)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        inside.sort();
        inside.iter().for_each(|path| files(path, found));
    } else {
        found.push(path.to_owned());
    }
}

/// The prose of a file, by line number: comments and string literals of code, everything but code of documents.
fn prose(path: &Path, text: &str) -> Vec<(usize, String)> {
    let lines = || (1..).zip(text.lines());
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("rs" | "c" | "cc" | "h" | "mjs") => of_code(text),
        Some("md") => {
            let mut is_code = false;
            let mut out = Vec::new();
            for (number, line) in lines() {
                if line.trim_start().starts_with("```") {
                    is_code = !is_code;
                } else if !is_code {
                    out.push((number, without_code(line)));
                }
            }
            out
        }
        Some("py" | "sh" | "toml" | "yml") | None => lines()
            .filter_map(|(number, line)| Some((number, line[line.find('#')?..].to_owned())))
            .collect(),
        _ => Vec::new(),
    }
}

/// Text of Markdown without what stands between backticks and the targets of links.
fn without_code(line: &str) -> String {
    let outside = line.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    let mut out = String::new();
    let mut rest = outside.as_str();
    while let Some(at) = rest.find("](") {
        out.push_str(&rest[..at]);
        rest = rest[at..].split_once(')').map_or("", |(_, rest)| rest);
    }
    out + rest
}

/// Comments and string literals of a language with C's comments. Names between backticks and braces are left out.
fn of_code(text: &str) -> Vec<(usize, String)> {
    let mut out = Vec::new();
    let (mut line, mut rest) = (1, text);
    let count = |text: &str| text.matches('\n').count();
    while let Some(at) = rest.find(['/', '"', '\'']) {
        line += count(&rest[..at]);
        rest = &rest[at..];
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(inside) = rest.strip_prefix('"') {
            let mut escaped = false;
            let end = inside.find(|letter| {
                let is_end = letter == '"' && !escaped;
                escaped = letter == '\\' && !escaped;
                is_end
            });
            end.map_or(rest.len(), |end| end + 2)
        } else if rest.starts_with("'\"'") {
            3
        } else {
            rest = &rest[1..];
            continue;
        };
        for (offset, part) in (0..).zip(rest[..length].lines()) {
            let outside: String = part.split('`').step_by(2).collect::<Vec<_>>().join(" ");
            let mut plain = String::new();
            let mut depth = 0;
            for letter in outside.chars() {
                match letter {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    _ if depth <= 0 => plain.push(letter),
                    _ => {}
                }
            }
            out.push((line + offset, plain));
        }
        line += count(&rest[..length]);
        rest = &rest[length..];
    }
    out
}

/// The entries of the list that occur in a text as whole words.
fn found(text: &str) -> Vec<(&'static str, &'static str)> {
    let lower = text.to_lowercase();
    let is_letter =
        |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    let occurs = |word: &str| {
        lower.match_indices(word).any(|(at, _)| {
            !is_letter(lower[..at].chars().next_back()) && !is_letter(lower[at + word.len()..].chars().next())
        })
    };
    AVOID.into_iter().filter(|(word, _)| occurs(word)).collect()
}

#[test]
fn no_comment_message_or_document_has_a_word_of_the_list() {
    let mut paths = Vec::new();
    PLACES
        .iter()
        .for_each(|place| files(&root().join(place), &mut paths));
    let mut faults = String::new();
    let mut pieces = 0;
    for path in &paths {
        let Ok(text) = fs::read_to_string(path) else {
            continue;
        };
        for (line, text) in prose(path, &text) {
            pieces += 1;
            for (word, instead) in found(&text) {
                let shown = path.strip_prefix(root()).unwrap_or(path).display();
                let _ = writeln!(
                    faults,
                    "{shown}:{line}: \"{word}\": write {instead}: {}",
                    text.trim()
                );
            }
        }
    }
    assert!(pieces > 10_000, "{pieces} pieces of prose read");
    assert!(faults.is_empty(), "{faults}");
}

#[test]
fn prose_is_found_and_code_is_not() {
    let code = "let told = 1; // it lies\nlet a = '\"'; let b = \"{told} stands\\\" there\";\n/// `told`\n";
    let lines: BTreeMap<usize, String> = of_code(code).into_iter().collect();
    assert_eq!(lines[&1], "// it lies");
    assert_eq!(found(&lines[&1]), [("lies", "is, is located")]);
    assert_eq!(found(&lines[&2]), [("stands", "is, is listed")]);
    assert!(found(&lines[&3]).is_empty() && lines.len() == 3);
    assert!(found("a family of lieses, understands").is_empty());
    let document = "# It lies\n```\ntold\n```\n[a](told.md) `told`\n";
    let prose = prose(Path::new("a.md"), document);
    assert_eq!(prose.iter().map(|(_, text)| found(text).len()).sum::<usize>(), 1);
}
