//! Credentials as the vendors' own tools take them, where `object_store` reads only variables.
//!
//! Google's need nothing here: `object_store` takes `GOOGLE_APPLICATION_CREDENTIALS`, the file of `gcloud auth application-default
//! login`, and the metadata server.

pub mod aws;
pub mod azure;

/// Returns the value of an environment variable. An empty one counts as unset.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
