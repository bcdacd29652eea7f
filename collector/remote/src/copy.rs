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
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
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
/// Number of bytes at the start of a copy, and before the end of what it has, that decide whether it can be continued.
const COMPARED_BYTES: u64 = 64 << 10;

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
        let all: Result<Vec<ObjectMeta>, _> = store.list(address.prefix()).try_collect().await;
        all.map(|all| (address.key, all))
    })?;
    let (prefix, all) = listed.map_err(|error| object_error(directory, io_error(error)))?;
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

/// Copies objects below a directory, which [`find`] returned, to a directory of this machine. Calls `progress` with the totals so far.
///
/// # Errors
/// An object cannot be read or was replaced meanwhile; a file cannot be written.
pub fn download(
    from: &Path,
    files: &[(String, Version)],
    to: &Path,
    progress: &mut dyn FnMut(Copied),
) -> Result<Copied, RemoteError> {
    let wanted: Vec<Wanted> = files
        .iter()
        .map(|(name, version)| Wanted {
            name: name.clone(),
            version: version.clone(),
            kept_bytes: 0,
        })
        .collect();
    download_from(from, &wanted, to, progress)
}

/// An object to copy.
pub(crate) struct Wanted {
    /// Name below the directory.
    pub(crate) name: String,
    /// Version that is copied.
    pub(crate) version: Version,
    /// Number of bytes at its start that its copy has. If they differ from those of the object, all is copied.
    pub(crate) kept_bytes: u64,
}

/// Copies objects below a directory, or continues their copies, as [`download`].
pub(crate) fn download_from(
    from: &Path,
    files: &[Wanted],
    to: &Path,
    progress: &mut dyn FnMut(Copied),
) -> Result<Copied, RemoteError> {
    let address = Address::of(from)?;
    let store = store(&address)?;
    let (sender, receiver) = channel();
    let mut jobs = Vec::new();
    for wanted in files {
        let Wanted {
            name,
            version,
            kept_bytes,
        } = wanted;
        let target = below(to, name);
        if let Some(directory) = target.parent() {
            fs::create_dir_all(directory).map_err(|source| file_error(directory, source))?;
        }
        let shown = below(from, name);
        let key = address.key_below(from, name)?;
        jobs.push(fetch(
            Arc::clone(&store),
            key,
            version.clone(),
            shown,
            (target, *kept_bytes),
            sender.clone(),
        ));
    }
    drop(sender);
    let task = handle()?.spawn(async move {
        stream::iter(jobs)
            .buffer_unordered(CONCURRENT)
            .try_collect::<Vec<()>>()
            .await
    });
    let total = follow(&receiver, progress);
    finish(task)?;
    Ok(total)
}

/// Copies one object to the file `target`, which has the first `kept_bytes` already. `shown` is its path for messages.
async fn fetch(
    store: Arc<dyn ObjectStore>,
    key: Key,
    version: Version,
    shown: PathBuf,
    (target, kept_bytes): (PathBuf, u64),
    sender: Sender<Copied>,
) -> Result<(), RemoteError> {
    let bytes = version.bytes;
    let object = Object::open(store, key, Some(version.clone())).await;
    let object = object.map_err(|source| object_error(&shown, source))?;
    // The copy has the versions that were listed.
    if !is_same(object.version(), &version) {
        return Err(RemoteError::Changed { path: shown });
    }
    let unwritable = |source| file_error(&target, source);
    let is_continued = kept_bytes > 0 && begins_with(&object, &shown, &target, kept_bytes).await?;
    let mut start = if is_continued { kept_bytes } else { 0 };
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .create(true)
        .write(true)
        .truncate(false)
        .open(&target)
        .map_err(unwritable)?;
    file.set_len(start).map_err(unwritable)?;
    file.seek(SeekFrom::End(0)).map_err(unwritable)?;
    while start < bytes {
        let end = bytes.min(start + REQUEST_BYTES);
        let part = object.read_range(start..end).await;
        let part = part.map_err(|source| object_error(&shown, source))?;
        file.write_all(&part).map_err(unwritable)?;
        start = end;
        // The caller may have ended.
        let _ = sender.send(Copied {
            files: 0,
            bytes: part.len() as u64,
        });
    }
    let _ = sender.send(Copied { files: 1, bytes: 0 });
    Ok(())
}

/// Returns true if an object seems to begin with the first bytes of a file. Their start and their end are compared.
async fn begins_with(object: &Object, shown: &Path, file: &Path, bytes: u64) -> Result<bool, RemoteError> {
    let unreadable = |source| file_error(file, source);
    let copy = fs::File::open(file).map_err(unreadable)?;
    for range in [
        0..bytes.min(COMPARED_BYTES),
        bytes.saturating_sub(COMPARED_BYTES)..bytes,
    ] {
        let mut kept = vec![0; (range.end - range.start) as usize];
        copy.read_exact_at(&mut kept, range.start).map_err(unreadable)?;
        let original = object.read_range(range).await;
        if original.map_err(|source| object_error(shown, source))? != kept {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What an upload writes, and what it replaces.
pub struct Upload<'a> {
    /// Directory of this machine.
    pub from: &'a Path,
    /// Directory in a store.
    pub to: &'a Path,
    /// Name of the file that makes the directory complete. It is written last.
    pub last: &'a str,
    /// Names of files, and of directories with `/` at their end, that belong to the upload. Other files there stay. The empty name means
    /// all files.
    pub replaced: &'a [&'a str],
}

/// Copies a directory of this machine to a store. It is complete only when the last file is there. Files of an older upload are
/// removed. Calls `progress` with the totals so far.
///
/// # Errors
/// A file cannot be read, an object cannot be written, or another program wrote there at the same time. The last file is then missing.
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
    let key_of = |name: &str| address.key_below(to, name);
    state().sessions.forget(to);
    // From here on, readers find no session, instead of one with files of two versions.
    remove(&store, vec![key_of(last)?], to)?;
    let mut sent = BTreeMap::new();
    let mut total = Copied::default();
    // Small files are numerous and need little memory, so more of them are copied at the same time.
    let (small, large): (Vec<String>, Vec<String>) = files
        .iter()
        .filter(|name| *name != last)
        .cloned()
        .partition(|name| {
            fs::metadata(below(from, name)).is_ok_and(|metadata| metadata.len() <= SMALL_BYTES)
        });
    for (names, concurrent) in [(small, CONCURRENT_SMALL), (large, CONCURRENT)] {
        let (sender, receiver) = channel();
        let mut jobs = Vec::new();
        for name in names {
            let job = send(
                Arc::clone(&store),
                key_of(&name)?,
                below(from, &name),
                below(to, &name),
                sender.clone(),
            );
            jobs.push(async move { job.await.map(|version| (name, version)) });
        }
        drop(sender);
        let task = handle()?.spawn(async move {
            stream::iter(jobs)
                .buffer_unordered(concurrent)
                .try_collect::<Vec<_>>()
                .await
        });
        let before = total;
        let copied = follow(&receiver, &mut |part| progress(before.and(part)));
        total = before.and(copied);
        sent.extend(finish(task)?);
    }
    let older = others(to, &sent, &is_replaced)?;
    if older.iter().any(|name| name == last) {
        // Another program completed its upload meanwhile, so its files and these are mixed.
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
        let (sender, receiver) = channel();
        let job = send(
            Arc::clone(&store),
            key_of(last)?,
            below(from, last),
            below(to, last),
            sender,
        );
        sent.insert(last.to_owned(), finish(handle()?.spawn(job))?);
        total = total.and(follow(&receiver, &mut |_| {}));
        // Another program may have started before the last file was there, and therefore not have removed it.
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
    Ok(total)
}

/// Returns true if the store already has this directory: the same names and sizes of files, and the same bytes in the last file. Only a
/// complete upload has the last file.
///
/// # Errors
/// The directory or the store cannot be read.
pub fn is_uploaded(upload: &Upload<'_>) -> Result<bool, RemoteError> {
    let mut names = Vec::new();
    files_below(upload.from, "", &mut names)?;
    let is_replaced = |name: &str| upload.replaced.iter().any(|start| is_part_of(name, start));
    let there = find(upload.to, is_replaced)?;
    let Some((_, version)) = there.iter().find(|(name, _)| name == upload.last) else {
        return Ok(false);
    };
    let is_same_size = |name: &str, version: &Version| {
        fs::metadata(below(upload.from, name)).is_ok_and(|metadata| metadata.len() == version.bytes)
    };
    if names.len() != there.len() || !there.iter().all(|(name, version)| is_same_size(name, version)) {
        return Ok(false);
    }
    let last = below(upload.from, upload.last);
    let here = fs::read(&last).map_err(|source| file_error(&last, source))?;
    let address = Address::of(upload.to)?;
    let store = store(&address)?;
    let key = address.key_below(upload.to, upload.last)?;
    let version = version.clone();
    let read = crate::runtime::wait(async move {
        let bytes = version.bytes;
        let object = Object::open(store, key, Some(version)).await?;
        object.read_range(0..bytes).await
    })?;
    let read = read.map_err(|source| object_error(&below(upload.to, upload.last), source))?;
    Ok(read == here)
}

/// Returns true if a name is that of a file, or below that of a directory, which ends with `/` or is empty.
pub fn is_part_of(name: &str, file_or_directory: &str) -> bool {
    match file_or_directory.is_empty() || file_or_directory.ends_with('/') {
        true => name.starts_with(file_or_directory),
        false => name == file_or_directory,
    }
}

/// Returns the names of the replaced files in a store that were not sent.
///
/// # Errors
/// A file that was sent is missing or was replaced, or the store cannot be read.
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

/// Returns true if two versions are the same. Lists of some stores have no tags; then only sizes are compared.
fn is_same(one: &Version, other: &Version) -> bool {
    one.bytes == other.bytes && (one.e_tag.is_none() || other.e_tag.is_none() || one.e_tag == other.e_tag)
}

/// Writes a file into an object, in parts if it is large.
async fn send(
    store: Arc<dyn ObjectStore>,
    key: Key,
    source: PathBuf,
    shown: PathBuf,
    sender: Sender<Copied>,
) -> Result<Version, RemoteError> {
    let failed = |error: object_store::Error| object_error(&shown, io_error(error));
    let unreadable = |error: io::Error| file_error(&source, error);
    let mut file = fs::File::open(&source).map_err(unreadable)?;
    let bytes = file.metadata().map_err(unreadable)?.len();
    let e_tag = if bytes <= PART_BYTES as u64 {
        let mut content = Vec::with_capacity(bytes as usize);
        file.read_to_end(&mut content).map_err(unreadable)?;
        let _ = sender.send(Copied { files: 0, bytes });
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
                    let _ = sender.send(Copied {
                        files: 0,
                        bytes: count as u64,
                    });
                    writer.wait_for_capacity(1).await.map_err(failed)
                }
                Err(error) => Err(unreadable(error)),
            };
            if let Err(error) = outcome {
                // Parts that cannot be removed are invisible to readers.
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
    let _ = sender.send(Copied { files: 1, bytes: 0 });
    Ok(Version {
        bytes,
        e_tag,
        written_unix_ns: None,
    })
}

/// Removes objects. A missing object is no error.
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
    removed.map_or(Ok(()), |error| Err(object_error(directory, io_error(error))))
}

/// Adds up progress until all jobs have ended, and returns the totals.
fn follow(receiver: &Receiver<Copied>, progress: &mut dyn FnMut(Copied)) -> Copied {
    let mut total = Copied::default();
    while let Ok(part) = receiver.recv() {
        total.files += part.files;
        total.bytes += part.bytes;
        progress(total);
    }
    total
}

/// Waits for the end of a task, and returns its result.
fn finish<T: Send + 'static>(
    task: tokio::task::JoinHandle<Result<T, RemoteError>>,
) -> Result<T, RemoteError> {
    let ended = crate::runtime::wait(task)?;
    ended.map_err(|_| io::Error::other("a copy ended unexpectedly; please report this"))?
}

/// Lists the files below a directory of this machine. Hidden files are left out, because they are unfinished.
pub(crate) fn files_below(directory: &Path, prefix: &str, out: &mut Vec<String>) -> Result<(), RemoteError> {
    let unreadable = |source| file_error(directory, source);
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

fn object_error(path: &Path, cause: io::Error) -> RemoteError {
    RemoteError::Object {
        path: path.to_path_buf(),
        cause,
    }
}

pub(crate) fn file_error(path: &Path, cause: io::Error) -> RemoteError {
    RemoteError::Local {
        path: path.to_path_buf(),
        cause,
    }
}
