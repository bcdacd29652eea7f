//! Sessions that this program reads. If a merge replaces one meanwhile, the program may have read files of both versions.
//!
//! An upload removes the summary before it writes anything else. So if the summary is unchanged at the end, no upload began.

use crate::address::Address;
use crate::error::{RemoteError, io_error};
use crate::object::Version;
use crate::runtime::wait;
use crate::state;
use crate::stores::store;
use object_store::ObjectStoreExt;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Summaries that were read, and their versions.
#[derive(Default)]
pub struct Sessions(Mutex<BTreeMap<PathBuf, Version>>);

impl Sessions {
    /// Notes that a summary was opened. A session that is opened again is read again.
    pub(crate) fn opened(&self, path: &Path, version: Version) {
        self.lock().insert(path.to_path_buf(), version);
    }

    /// Forgets the sessions of a directory, because this program replaces them.
    pub(crate) fn forget(&self, directory: &Path) {
        self.lock().retain(|path, _| !path.starts_with(directory));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Version>> {
        // The map is consistent even if a thread panicked while it held the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks that no session was replaced since it was read. Sends nothing if none was in a store.
///
/// # Errors
/// A session was replaced or removed, or its store cannot be reached.
pub fn check() -> Result<(), RemoteError> {
    let read = state().sessions.lock().clone();
    for (path, version) in read {
        let address = Address::of(&path)?;
        let store = store(&address)?;
        let current = match wait(async move { store.head(&address.key).await })? {
            Ok(meta) => meta,
            Err(object_store::Error::NotFound { .. }) => return Err(RemoteError::Changed { path }),
            Err(error) => {
                let cause = io_error(error);
                return Err(RemoteError::Object { path, cause });
            }
        };
        if current.size != version.bytes || current.e_tag != version.e_tag {
            return Err(RemoteError::Changed { path });
        }
    }
    Ok(())
}
