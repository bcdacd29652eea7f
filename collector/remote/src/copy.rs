//! Whole directories: the logs of a run to this machine, and a session to an object store.
//!
//! A session in a store is complete if it has its summary. A directory is therefore written in this order: the old summary is
//! removed, all other files are written, files of an older session are removed, the new summary is written.

use crate::address::{Address, below};
use crate::error::{RemoteError, io_error};
use crate::object::{Object, Version};
use crate::runtime::handle;
use crate::state;
use crate::stores::store;
use crate::upload::{self, PART_BYTES};
use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path as Key;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, WriteMultipart};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Number of objects that are copied at the same time.
const CONCURRENT: usize = 8;
/// Size up to which a file counts as small, and the number of those that are copied at the same time.
const SMALL_BYTES: u64 = 1 << 20;
const CONCURRENT_SMALL: usize = 32;
/// Number of bytes of one request.
const REQUEST_BYTES: u64 = 8 << 20;

/// Files and bytes of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Number of files.
    pub files: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl Copied {
    fn and(self, more: Self) -> Self {
        Self {
            files: self.files + more.files,
            bytes: self.bytes + more.bytes,
        }
    }
}

/// A file below a directory: its name with `/` between the parts, and its version.
type Named = (String, Version);

/// Lists all objects below a directory whose name is `wanted`, without the marks of directories.
///
/// # Errors
/// The store cannot be read.
pub fn find(directory: &Path, wanted: impl Fn(&str) -> bool) -> Result<Vec<(String, Version)>, RemoteError> {
    let address = Address::of(directory)?;
    let store = store(&address)?;
    let protocol = address.protocol;
    let listed = crate::runtime::wait(async move {
        let prefix = (!address.key.as_ref().is_empty()).then_some(address.key);
        let all: Result<Vec<ObjectMeta>, _> = store.list(prefix.as_ref()).try_collect().await;
        all.map(|all| (prefix.unwrap_or_default(), all))
    })?;
    let (prefix, all) = listed.map_err(|error| at(directory, io_error(error)))?;
    let directories: BTreeSet<Key> = all
        .iter()
        .filter_map(|object| object.location.as_ref().rsplit_once('/'))
        .filter_map(|(directory, _)| Key::parse(directory).ok())
        .collect();
    let mut files: Vec<Named> = all
        .into_iter()
        .filter(|object| object.size > 0 || !directories.contains(&object.location))
        .filter_map(|object| {
            let name = object.location.prefix_match(&prefix)?;
            let name = name
                .map(|part| part.as_ref().to_owned())
                .collect::<Vec<_>>()
                .join("/");
            let version = Version::listed(object, protocol);
            (!name.is_empty() && wanted(&name)).then_some((name, version))
        })
        .collect();
    files.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(files)
}

/// Copies objects below a directory, which [`find`] returned, to a directory of this machine. Calls `progress` with what is done.
///
/// # Errors
/// An object cannot be read or was replaced meanwhile; a file cannot be written.
pub fn download(
    from: &Path,
    files: &[(String, Version)],
    to: &Path,
    progress: &mut dyn FnMut(Copied),
) -> Result<Copied, RemoteError> {
    let address = Address::of(from)?;
    let store = store(&address)?;
    let (news, copied) = channel();
    let mut jobs = Vec::new();
    for (name, version) in files {
        let target = below(to, name);
        if let Some(directory) = target.parent() {
            fs::create_dir_all(directory).map_err(|source| local(directory, source))?;
        }
        let shown = below(from, name);
        let key = key_below(&address.key, name).map_err(|_| RemoteError::Address {
            path: shown.clone(),
            why: "an object has no such name",
        })?;
        jobs.push(fetch(
            Arc::clone(&store),
            key,
            version.clone(),
            shown,
            target,
            news.clone(),
        ));
    }
    drop(news);
    let task = handle()?.spawn(async move {
        stream::iter(jobs)
            .buffer_unordered(CONCURRENT)
            .try_collect::<Vec<()>>()
            .await
    });
    let done = follow(&copied, progress);
    finish(task)?;
    Ok(done)
}

async fn fetch(
    store: Arc<dyn ObjectStore>,
    key: Key,
    version: Version,
    shown: PathBuf,
    target: PathBuf,
    news: Sender<Copied>,
) -> Result<(), RemoteError> {
    let bytes = version.bytes;
    let object = Object::open(store, key, Some(version.clone())).await;
    let object = object.map_err(|source| at(&shown, source))?;
    // All of the copy is of the moment of the list.
    if !is_same(object.version(), &version) {
        return Err(RemoteError::Changed { path: shown });
    }
    let mut file = fs::File::create(&target).map_err(|source| local(&target, source))?;
    let mut start = 0;
    while start < bytes {
        let end = bytes.min(start + REQUEST_BYTES);
        let part = object.read_range(start..end).await;
        let part = part.map_err(|source| at(&shown, source))?;
        file.write_all(&part).map_err(|source| local(&target, source))?;
        start = end;
        // The caller may have ended.
        let _ = news.send(Copied {
            files: 0,
            bytes: part.len() as u64,
        });
    }
    let _ = news.send(Copied { files: 1, bytes: 0 });
    Ok(())
}

/// What an upload writes, and what it replaces.
pub struct Upload<'a> {
    /// Directory of this machine.
    pub from: &'a Path,
    /// Directory in a store.
    pub to: &'a Path,
    /// Name of the file that makes the directory complete. It is written last.
    pub last: &'a str,
    /// Names of files, and of directories with `/` at their end, that belong to the upload. Other files there stay.
    pub replaced: &'a [&'a str],
}

/// Copies a directory of this machine to a store, so that it is complete only when the last file is there. Files of an older upload
/// are removed. Calls `progress` with what is done.
///
/// # Errors
/// A file cannot be read, or an object cannot be written. Another program wrote there at the same time; then the last file is not there.
pub fn upload(upload: &Upload<'_>, progress: &mut dyn FnMut(Copied)) -> Result<Copied, RemoteError> {
    let Upload {
        from,
        to,
        last,
        replaced,
    } = *upload;
    let address = Address::of(to)?;
    let store = store(&address)?;
    let is_replaced = |name: &str| replaced.iter().any(|start| is_part_of(name, start));
    let mut files = Vec::new();
    files_below(from, "", &mut files)?;
    let key_of = |name: &str| {
        key_below(&address.key, name).map_err(|_| RemoteError::Address {
            path: below(to, name),
            why: "an object has no such name",
        })
    };
    state().sessions.forget(to);
    // A reader that comes now finds no session, instead of one with files of two.
    remove(&store, vec![key_of(last)?], to)?;
    let mut sent = BTreeMap::new();
    let mut done = Copied::default();
    // Small files are many, and need little memory.
    let (small, large): (Vec<String>, Vec<String>) = files
        .iter()
        .filter(|name| *name != last)
        .cloned()
        .partition(|name| {
            fs::metadata(below(from, name)).is_ok_and(|metadata| metadata.len() <= SMALL_BYTES)
        });
    for (names, concurrent) in [(small, CONCURRENT_SMALL), (large, CONCURRENT)] {
        let (news, copied) = channel();
        let mut jobs = Vec::new();
        for name in names {
            let job = send(
                Arc::clone(&store),
                key_of(&name)?,
                below(from, &name),
                below(to, &name),
                news.clone(),
            );
            jobs.push(async move { job.await.map(|version| (name, version)) });
        }
        drop(news);
        let task = handle()?.spawn(async move {
            stream::iter(jobs)
                .buffer_unordered(concurrent)
                .try_collect::<Vec<_>>()
                .await
        });
        let before = done;
        let copied = follow(&copied, &mut |part| progress(before.and(part)));
        done = before.and(copied);
        sent.extend(finish(task)?);
    }
    let older = others(to, &sent, &is_replaced)?;
    if older.iter().any(|name| name == last) {
        // Another program completed its upload meanwhile. Its files and ours are mixed.
        remove(&store, vec![key_of(last)?], to)?;
        return Err(RemoteError::Replaced {
            path: below(to, last),
        });
    }
    remove(
        &store,
        older.iter().map(|name| key_of(name)).collect::<Result<_, _>>()?,
        to,
    )?;
    if files.iter().any(|name| name == last) {
        let (news, copied) = channel();
        let job = send(
            Arc::clone(&store),
            key_of(last)?,
            below(from, last),
            below(to, last),
            news,
        );
        sent.insert(last.to_owned(), finish(handle()?.spawn(job))?);
        done = done.and(follow(&copied, &mut |_| {}));
        // Another program may have begun before the last file was there, and not have seen it.
        let checked = others(to, &sent, &is_replaced).and_then(|others| match others.first() {
            Some(other) => Err(RemoteError::Replaced {
                path: below(to, other),
            }),
            None => Ok(()),
        });
        if let Err(error) = checked {
            remove(&store, vec![key_of(last)?], to)?;
            return Err(error);
        }
    }
    state().listings.forget(to);
    Ok(done)
}

/// Returns true if a name is that of a file, or below that of a directory, which ends with `/`.
pub fn is_part_of(name: &str, file_or_directory: &str) -> bool {
    match file_or_directory.ends_with('/') {
        true => name.starts_with(file_or_directory),
        false => name == file_or_directory,
    }
}

/// Returns the names of files that are there and were not sent.
///
/// # Errors
/// A file that was sent is missing or another one.
fn others(
    to: &Path,
    sent: &BTreeMap<String, Version>,
    is_replaced: &impl Fn(&str) -> bool,
) -> Result<Vec<String>, RemoteError> {
    let mut missing: BTreeSet<&str> = sent
        .keys()
        .map(String::as_str)
        .filter(|name| is_replaced(name))
        .collect();
    let mut others = Vec::new();
    for (name, found) in find(to, is_replaced)? {
        match sent.get(&name) {
            Some(sent) if !is_same(sent, &found) => {
                return Err(RemoteError::Replaced {
                    path: below(to, &name),
                });
            }
            Some(_) => drop(missing.remove(name.as_str())),
            None => others.push(name),
        }
    }
    match missing.first() {
        Some(missing) => Err(RemoteError::Replaced {
            path: below(to, missing),
        }),
        None => Ok(others),
    }
}

/// Compares two versions. Lists of some stores have no tags.
fn is_same(one: &Version, other: &Version) -> bool {
    one.bytes == other.bytes && (one.e_tag.is_none() || other.e_tag.is_none() || one.e_tag == other.e_tag)
}

async fn send(
    store: Arc<dyn ObjectStore>,
    key: Key,
    source: PathBuf,
    shown: PathBuf,
    news: Sender<Copied>,
) -> Result<Version, RemoteError> {
    let failed = |error: object_store::Error| at(&shown, io_error(error));
    let unreadable = |error: io::Error| local(&source, error);
    let mut file = fs::File::open(&source).map_err(unreadable)?;
    let bytes = file.metadata().map_err(unreadable)?.len();
    let e_tag = if bytes <= PART_BYTES as u64 {
        let mut content = Vec::with_capacity(bytes as usize);
        file.read_to_end(&mut content).map_err(unreadable)?;
        let _ = news.send(Copied { files: 0, bytes });
        store.put(&key, content.into()).await.map_err(failed)?.e_tag
    } else {
        let before = upload::present(&store, &key).await;
        let upload = store.put_multipart(&key).await.map_err(failed)?;
        let mut writer = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
        let mut part = vec![0; PART_BYTES];
        loop {
            let outcome = match file.read(&mut part) {
                Ok(0) => break,
                Ok(count) => {
                    writer.write(&part[..count]);
                    let _ = news.send(Copied {
                        files: 0,
                        bytes: count as u64,
                    });
                    writer.wait_for_capacity(1).await.map_err(failed)
                }
                Err(error) => Err(unreadable(error)),
            };
            if let Err(error) = outcome {
                // Parts that cannot be removed are invisible.
                let _ = writer.abort().await;
                return Err(error);
            }
        }
        match writer.finish().await {
            Ok(result) => result.e_tag,
            Err(error) => {
                let completed = upload::completed(&store, &key, bytes, before.as_ref(), &error).await;
                completed.ok_or(error).map_err(failed)?.e_tag
            }
        }
    };
    let _ = news.send(Copied { files: 1, bytes: 0 });
    Ok(Version { bytes, e_tag })
}

/// Removes objects. That one does not exist is no error.
fn remove(store: &Arc<dyn ObjectStore>, keys: Vec<Key>, directory: &Path) -> Result<(), RemoteError> {
    let store = Arc::clone(store);
    let removed = crate::runtime::wait(async move {
        let keys = stream::iter(keys.into_iter().map(Ok)).boxed();
        let outcomes: Vec<_> = store.delete_stream(keys).collect().await;
        outcomes.into_iter().find_map(|outcome| match outcome {
            Ok(_) | Err(object_store::Error::NotFound { .. }) => None,
            Err(error) => Some(error),
        })
    })?;
    removed.map_or(Ok(()), |error| Err(at(directory, io_error(error))))
}

/// Adds up what is done, until all jobs ended.
fn follow(copied: &Receiver<Copied>, progress: &mut dyn FnMut(Copied)) -> Copied {
    let mut done = Copied::default();
    while let Ok(part) = copied.recv() {
        done.files += part.files;
        done.bytes += part.bytes;
        progress(done);
    }
    done
}

fn finish<T: Send + 'static>(
    task: tokio::task::JoinHandle<Result<T, RemoteError>>,
) -> Result<T, RemoteError> {
    let ended = crate::runtime::wait(task)?;
    ended.map_err(|_| io::Error::other("a copy ended unexpectedly; please report this"))?
}

/// Lists the files below a directory of this machine. Hidden ones are unfinished.
fn files_below(directory: &Path, prefix: &str, out: &mut Vec<String>) -> Result<(), RemoteError> {
    let unreadable = |source| local(directory, source);
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        if name.starts_with('.') {
            continue;
        }
        let path = format!("{prefix}{name}");
        if entry.file_type().map_err(unreadable)?.is_dir() {
            files_below(&entry.path(), &format!("{path}/"), out)?;
        } else {
            out.push(path);
        }
    }
    out.sort();
    Ok(())
}

fn key_below(prefix: &Key, name: &str) -> Result<Key, object_store::path::Error> {
    match prefix.as_ref() {
        "" => Key::parse(name),
        prefix => Key::parse(format!("{prefix}/{name}")),
    }
}

fn at(path: &Path, cause: io::Error) -> RemoteError {
    RemoteError::Object {
        path: path.to_path_buf(),
        cause,
    }
}

fn local(path: &Path, cause: io::Error) -> RemoteError {
    RemoteError::Local {
        path: path.to_path_buf(),
        cause,
    }
}
