//! Value of the option --kernels.

use rankscope_ranklog::activity_request::ActivityRequest;

/// Validates the value.
pub fn parse(text: &str) -> Result<String, String> {
    match ActivityRequest::parse(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err(
            "use off, communication or all, with an optional window: all@30+10 (seconds), all@step100+20"
                .to_owned(),
        ),
    }
}
