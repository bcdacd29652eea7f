use std::io::Write;

/// Reports that the running test does not test something here, and why. In CI that is a failure.
///
/// # Panics
/// With `CI=true`.
pub fn skip(reason: &str) {
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "CI=true, and yet to be skipped: {reason}"
    );
    // eprintln would not show it: the test runner captures the output of tests that pass.
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
}
