//! Version of the program, for files that only the same version reads.

/// Returns the version of the program, with its commit if packages state it. Processes of other versions refuse its
/// units, and its files for the next merge: their results might differ.
pub fn version() -> String {
    let number = env!("CARGO_PKG_VERSION");
    match option_env!("RANKSCOPE_COMMIT") {
        Some(commit) => format!("{number} ({commit})"),
        None => number.to_owned(),
    }
}
