//! Runs the real Perfetto engine (`tests/perfetto-engine`) on a file.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/perfetto-engine")
}

fn run(args: &[&str]) -> std::io::Result<Output> {
    Command::new("node")
        .arg(folder().join("tpwasm.mjs"))
        .args(args)
        .output()
}

/// Returns whether the engine is available. If not, prints what is skipped and why; with `CI=true` this is a failure.
pub fn available(skipped: &str) -> bool {
    let reason = match run(&["version"]) {
        Ok(output) if output.status.success() => return true,
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => format!("node cannot be run: {error}"),
    };
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "CI must not skip {skipped}: {reason}"
    );
    eprintln!("SKIPPED {skipped}: {reason}");
    false
}

/// Fails with the list of items that the import lost or changed.
pub fn assert_clean(trace: &Path) {
    let output = run(&["check", &trace.to_string_lossy()]).expect("node runs");
    assert!(
        output.status.success(),
        "the engine has complaints:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Returns the rows of each query, with every cell as text (`[NULL]` for NULL).
pub fn query<const N: usize>(trace: &Path, queries: [&str; N]) -> [Vec<Vec<String>>; N] {
    let trace = trace.to_string_lossy();
    let mut args = vec!["query", &trace];
    args.extend(queries);
    let output = run(&args).expect("node runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let results: Vec<_> = text
        .trim_end_matches('\n')
        .split("\n\n")
        .map(|table| {
            table
                .lines()
                .skip(1)
                .map(|row| row.split('\t').map(str::to_owned).collect())
                .collect()
        })
        .collect();
    results.try_into().expect("one table per query")
}

/// Returns the cell of an answer with one row and one column, as a number.
pub fn number(rows: &[Vec<String>]) -> u64 {
    rows[0][0].parse().expect("a number")
}
