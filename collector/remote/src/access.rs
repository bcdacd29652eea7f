//! What `rankscope_formats::files` requests of object stores.

use crate::address::Address;
use crate::error::io_error;
use crate::listing::{self, Names};
use crate::object::{Object, Version};
use crate::read_ahead::rank_of;
use crate::runtime::{handle, wait};
use crate::state;
use crate::stores::store;
use crate::upload::ObjectUpload;
use futures::StreamExt;
use object_store::ObjectStoreExt;
use rankscope_formats::files::{Found, Remote, RemoteFile, Upload};
use rankscope_formats::session::SUMMARY_FILE;
use std::future::Future;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Access to all object stores.
pub struct Stores;

impl Remote for Stores {
    fn find(&self, path: &Path) -> io::Result<Found> {
        if let (Some(directory), Some(name)) =
            (path.parent(), path.file_name().and_then(|name| name.to_str()))
        {
            // Readers look up the files of all ranks. One list replaces these requests.
            let names = match rank_of(path) {
                Some(_) => Some(state().listings.list(directory)?),
                None => state().listings.known(directory),
            };
            if let Some(names) = names {
                return Ok(names
                    .get(name)
                    .map_or(Found::Nothing, |version| listing::found(version.as_ref())));
            }
        }
        let address = Address::of(path)?;
        let store = store(&address)?;
        wait(async move {
            if let Some(key) = address.prefix() {
                match store.head(key).await {
                    Ok(meta) => return Ok(Found::File(meta.size)),
                    Err(object_store::Error::NotFound { .. }) => {}
                    Err(error) => return Err(io_error(error)),
                }
            }
            match store.list(address.prefix()).next().await {
                Some(Ok(_)) => Ok(Found::Directory),
                Some(Err(error)) => Err(io_error(error)),
                None => Ok(Found::Nothing),
            }
        })?
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<(String, Found)>> {
        let names = listing::names(directory)?;
        if names.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "no object is below this path",
            ));
        }
        Ok(names
            .into_iter()
            .map(|(name, version)| (name, listing::found(version.as_ref())))
            .collect())
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn RemoteFile>> {
        let directory = path.parent().unwrap_or(path);
        if path.file_name().is_some_and(|name| name == SUMMARY_FILE) {
            // The session may have been replaced since these were filled.
            state().listings.forget(directory);
            state().read_ahead.forget(directory);
        }
        let ahead = state().read_ahead.take(path);
        let next = state().read_ahead.next(path);
        let listed = match next.is_empty() {
            true => state().listings.known(directory),
            // The list costs less than requests for files that do not exist. Without the right to list, none is opened ahead.
            false => state().listings.list(directory).ok(),
        };
        for next in next {
            if listed
                .as_ref()
                .is_some_and(|names| version_in(names, &next).is_some())
            {
                let task = handle()?.spawn(opening(&next, listed.as_deref())?);
                state().read_ahead.hold(next, task);
            }
        }
        let object = match ahead {
            Some(task) => wait(task)?.map_err(|_| io::Error::other("a request was cancelled"))??,
            None => wait(opening(path, listed.as_deref())?)??,
        };
        if path.file_name().is_some_and(|name| name == SUMMARY_FILE) {
            state().sessions.opened(path, object.version().clone());
        }
        Ok(Arc::new(object))
    }

    fn open_parts(&self, path: &Path) -> io::Result<Arc<dyn RemoteFile>> {
        let directory = path.parent().unwrap_or(path);
        let address = Address::of(path)?;
        let store = store(&address)?;
        // The list has the versions of the files of all ranks. Without the right to list, each is requested.
        let listed = rank_of(path).and_then(|_| state().listings.list(directory).ok());
        if let Some(names) = listed {
            let version = version_in(&names, path)
                .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such object"))?;
            // Without a tag, nobody would notice that the object was replaced between two reads.
            if version.e_tag.is_some() {
                return Ok(Arc::new(Object::of_version(store, address.key, version)));
            }
        }
        let object = wait(async move {
            let meta = store.head(&address.key).await.map_err(io_error)?;
            io::Result::Ok(Object::of_version(store, address.key, Version::of(meta)))
        })??;
        Ok(Arc::new(object))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn Upload>> {
        Ok(Box::new(ObjectUpload::create(path)?))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let address = Address::of(path)?;
        let store = store(&address)?;
        if let Some(directory) = path.parent() {
            state().listings.forget(directory);
        }
        wait(async move { store.delete(&address.key).await })?.map_err(io_error)
    }
}

/// Returns the version of a file in the list of its directory.
fn version_in(names: &Names, path: &Path) -> Option<Version> {
    names.get(path.file_name()?.to_str()?).cloned().flatten()
}

/// Returns the future that opens a file. `listed` is the list of its directory, if it is known.
fn opening(
    path: &Path,
    listed: Option<&Names>,
) -> io::Result<impl Future<Output = io::Result<Object>> + Send + 'static> {
    let address = Address::of(path)?;
    let store = store(&address)?;
    let known = listed.and_then(|names| version_in(names, path));
    Ok(Object::open(store, address.key, known))
}
