use std::io::Write;

/// Says that the running test does not test something here, and why. In CI that is a failure.
///
/// # Panics
/// With `CI=true`.
pub fn skip(reason: &str) {
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "CI=true, and yet to be skipped: {reason}"
    );
    // Not eprintln: the test runner would swallow it, since the test passes.
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
}
