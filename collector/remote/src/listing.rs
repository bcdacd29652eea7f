//! Lists of directories. Those with a file per rank are cached, so that thousands of look-ups cost one request.

use crate::address::Address;
use crate::error::io_error;
use crate::object::Version;
use crate::runtime::wait;
use crate::stores::store;
use object_store::path::Path as Key;
use rankscope_formats::files::Found;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Name in a directory, and what it is. A directory has no version.
pub type Names = BTreeMap<String, Option<Version>>;

/// Cached lists, by directory.
#[derive(Default)]
pub struct Listings(Mutex<HashMap<PathBuf, Arc<Names>>>);

impl Listings {
    /// Returns the list of a directory, if it is cached.
    pub fn known(&self, directory: &Path) -> Option<Arc<Names>> {
        self.lock().get(directory).map(Arc::clone)
    }

    /// Returns the list of a directory, and caches it.
    pub fn list(&self, directory: &Path) -> io::Result<Arc<Names>> {
        if let Some(known) = self.known(directory) {
            return Ok(known);
        }
        let names = Arc::new(names(directory)?);
        self.lock().insert(directory.to_path_buf(), Arc::clone(&names));
        Ok(names)
    }

    /// Forgets a directory and those inside, because a program writes or wrote there.
    pub fn forget(&self, directory: &Path) {
        self.lock().retain(|known, _| !known.starts_with(directory));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, Arc<Names>>> {
        // The map is consistent even if a thread panicked while it held the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Requests the names directly below a directory.
pub fn names(directory: &Path) -> io::Result<Names> {
    let address = Address::of(directory)?;
    let store = store(&address)?;
    let protocol = address.protocol;
    let listed = wait(async move {
        let listed = store.list_with_delimiter(address.prefix()).await;
        listed.map(|listed| (address.key, listed))
    })?;
    let (prefix, listed) = listed.map_err(io_error)?;
    tracing::debug!(directory = %directory.display(), names = listed.objects.len(), "listed");
    let name_of = |key: &Key| {
        key.prefix_match(&prefix)?
            .next()
            .map(|part| part.as_ref().to_owned())
    };
    let mut names = Names::new();
    for key in &listed.common_prefixes {
        names.extend(name_of(key).map(|name| (name, None)));
    }
    for object in listed.objects {
        // An empty object may mark a directory that also has a prefix.
        if let Some(name) = name_of(&object.location) {
            names
                .entry(name)
                .or_insert(Some(Version::listed(object, protocol)));
        }
    }
    Ok(names)
}

/// Returns what an entry is.
pub fn found(version: Option<&Version>) -> Found {
    version.map_or(Found::Directory, |version| Found::File(version.bytes))
}
