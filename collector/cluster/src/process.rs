//! Identity of this process.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the name of the host.
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Returns a name that no other process has or had, on any machine. It can be part of a file name. Host and process number do not
/// suffice: a container that starts again has the same ones.
pub fn unique_name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let host: String = host_name()
            .chars()
            .filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-')
            .collect();
        format!("{host}-{}-{}", std::process::id(), since_epoch.as_nanos())
    })
}
