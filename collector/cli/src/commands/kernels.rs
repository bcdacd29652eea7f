//! What of the devices' work is asked for, as an option's value.

use rankscope_ranklog::wanted::Wanted;

/// The value, if it means something.
pub fn wanted(text: &str) -> Result<String, String> {
    match Wanted::parse(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err(
            "say off, communication or all, with a window if you like: all@30+10 (seconds), all@step100+20"
                .to_owned(),
        ),
    }
}
