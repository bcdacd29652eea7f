//! The prompt: several queries on the same runs, with a history and completion.

use crate::engine::Engine;
use crate::output::{self, Format};
use crate::{errors, functions, statements};
use anyhow::{Context as _, Result};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Editor, Helper};
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Instant;

/// SQL keywords for completion.
const KEYWORDS: [&str; 34] = [
    "select",
    "from",
    "where",
    "group by",
    "order by",
    "limit",
    "join",
    "left join",
    "on",
    "using",
    "and",
    "or",
    "not",
    "null",
    "is",
    "in",
    "like",
    "between",
    "as",
    "distinct",
    "having",
    "with",
    "union all",
    "case",
    "when",
    "then",
    "else",
    "end",
    "count(",
    "sum(",
    "avg(",
    "min(",
    "max(",
    "describe",
];

const HELP: &str = "\
A query ends with a semicolon. The tab key completes names.
  \\t            all tables
  \\d TABLE      the columns of a table, with their meaning and unit
  \\f            rankscope's own functions
  \\q            end; so does Ctrl-D
  select …;     a query
Example:
  select operation, size_class(size_bytes) size, count(*) n, percentile(bus_bytes_per_s, 0.5) / 1e9 gb_per_s
  from instances where state = 'complete' group by all order by n desc;";

/// Line-editing helper: completes names, and continues a line until its query is complete.
struct SqlHelper(Vec<String>);

impl Helper for SqlHelper {}
impl Highlighter for SqlHelper {}
impl Hinter for SqlHelper {
    type Hint = String;
}

impl Validator for SqlHelper {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let text = context.input().trim();
        let is_complete = text.is_empty() || text.starts_with('\\') || statements::split(text).1;
        Ok(match is_complete {
            true => ValidationResult::Valid(None),
            false => ValidationResult::Incomplete,
        })
    }
}

impl Completer for SqlHelper {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let before = &line[..position];
        let start = before
            .rfind(|letter: char| !(letter.is_alphanumeric() || letter == '_'))
            .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
        let word = before[start..].to_lowercase();
        if word.is_empty() {
            return Ok((start, Vec::new()));
        }
        let known = self.0.iter().map(String::as_str).chain(KEYWORDS);
        let fitting = known.filter(|known| known.starts_with(&word));
        Ok((start, fitting.map(str::to_owned).collect()))
    }
}

/// Path of the history; `None` without a home directory.
fn history() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state")))?;
    Some(state.join("rankscope/sql_history"))
}

/// Reads queries until the end of the input.
///
/// # Errors
/// A terminal that cannot be used. A query with an error is only reported.
pub fn run(engine: &Engine, runtime: &tokio::runtime::Runtime, max_rows: usize) -> Result<()> {
    let mut editor: Editor<SqlHelper, FileHistory> = Editor::new().context("cannot use the terminal")?;
    editor.set_helper(Some(SqlHelper(engine.completions().to_vec())));
    let history = history();
    if let Some(path) = &history {
        // A history that does not exist yet, or cannot be read, is empty.
        let _ = path.parent().map(std::fs::create_dir_all);
        let _ = editor.load_history(path);
    }
    println!("\\h explains the prompt, \\t lists the tables");
    loop {
        match editor.readline("sql> ") {
            Ok(text) => {
                let text = text.trim();
                if text.is_empty() {
                    continue;
                }
                let _ = editor.add_history_entry(text);
                if let Some(path) = &history {
                    let _ = editor.append_history(path);
                }
                if matches!(text.trim_end_matches(';'), "\\q" | "quit" | "exit") {
                    return Ok(());
                }
                if let Some(command) = text.strip_prefix('\\') {
                    run_command(engine, runtime, command, max_rows)?;
                    continue;
                }
                for statement in statements::split(text).0 {
                    answer(engine, runtime, statement, max_rows)?;
                }
            }
            // Ctrl-C discards the line.
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(error).context("cannot read the terminal"),
        }
    }
}

/// Runs a prompt command such as `d TABLE`, given without its backslash.
fn run_command(
    engine: &Engine,
    runtime: &tokio::runtime::Runtime,
    command: &str,
    max_rows: usize,
) -> Result<()> {
    let mut words = command.trim_end_matches(';').split_whitespace();
    match (words.next(), words.next()) {
        (Some("h" | "?"), None) => println!("{HELP}"),
        (Some("f"), None) => {
            for function in functions::ALL {
                println!("{}\n    {}", function.usage, function.meaning);
            }
        }
        (Some("t" | "d"), None) => {
            for (name, meaning) in engine.tables() {
                println!("{name:16} {meaning}");
            }
        }
        (Some("d"), Some(table)) if engine.tables().iter().any(|(name, _)| name == table) => {
            let query =
                format!("select column_name, type, meaning from columns where table_name = '{table}'");
            return answer(engine, runtime, &query, max_rows);
        }
        (Some("d"), Some(table)) => eprintln!("there is no table {table}; \\t lists the tables"),
        _ => eprintln!("there is no command \\{command}; \\h lists the commands"),
    }
    Ok(())
}

/// Runs a query of the prompt. Ctrl-C ends the query, not the prompt.
fn answer(engine: &Engine, runtime: &tokio::runtime::Runtime, query: &str, max_rows: usize) -> Result<()> {
    let started = Instant::now();
    let result = runtime.block_on(async {
        let work =
            async { output::write(engine.query(query).await?, Format::Table, max_rows, io::stdout()).await };
        tokio::select! {
            result = work => Some(result),
            _ = tokio::signal::ctrl_c() => None,
        }
    });
    match result {
        Some(Ok(written)) => println!(
            "{} in {:.2} s",
            written.summary(),
            started.elapsed().as_secs_f64()
        ),
        Some(Err(error)) => eprintln!("{}", errors::explain(&error)),
        None => eprintln!("canceled"),
    }
    io::stdout().flush().context("cannot write to the terminal")
}
