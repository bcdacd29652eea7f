//! Runs and sessions in object stores: Amazon S3 and compatible servers, Google Cloud Storage, Azure Blob Storage.
//!
//! [`register`] gives the readers and writers of `rankscope_formats::files` access to paths such as `s3://bucket/run`. The crate
//! `object_store` has the protocols, retries and multipart uploads.
//!
//! | file | content |
//! |---|---|
//! | [`address`] | parts of a path; `file://` in arguments |
//! | `credentials/` | variables and files of the vendors' tools that `object_store` does not read |
//! | `stores` | one client per bucket |
//! | `runtime` | runs requests for callers that block |
//! | `object` | an open object, all of one version |
//! | `listing`, `read_ahead` | lists of directories, and files that are probably read next |
//! | `upload` | an object that is being written |
//! | `access` | the trait by which `rankscope_formats::files` uses all of this |
//! | [`sessions`] | sessions that were read, and whether they were replaced since |
//! | [`copy`] | whole directories: logs to this machine, a session to a store |
//! | [`kept_copy`] | copies that stay, so that a later copy transfers only what is new |
//! | [`error`] | errors in the words of a user |

mod access;
pub mod address;
pub mod copy;
mod credentials;
pub mod error;
pub mod kept_copy;
mod listing;
mod object;
mod read_ahead;
mod runtime;
pub mod sessions;
mod stores;
mod upload;

use std::sync::{Arc, OnceLock};

/// Gives this program access to object stores. Connects to nothing.
pub fn register() {
    rankscope_formats::files::register(Box::new(access::Stores));
}

/// Returns the client of the bucket of a path, and the name of the object, for DataFusion.
///
/// # Errors
/// The path or the credentials are not usable.
pub fn client(
    path: &std::path::Path,
) -> Result<(Arc<dyn object_store::ObjectStore>, object_store::path::Path), error::RemoteError> {
    let address = address::Address::of(path)?;
    let store = stores::store(&address)?;
    Ok((store, address.key))
}

/// State of this program: its clients, and caches of the stores' content.
struct State {
    stores: stores::Clients,
    listings: listing::Listings,
    read_ahead: read_ahead::ReadAhead,
    sessions: sessions::Sessions,
}

fn state() -> &'static State {
    static STATE: OnceLock<State> = OnceLock::new();
    STATE.get_or_init(|| State {
        stores: stores::Clients::default(),
        listings: listing::Listings::default(),
        read_ahead: read_ahead::ReadAhead::default(),
        sessions: sessions::Sessions::default(),
    })
}
