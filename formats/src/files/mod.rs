//! Files of runs and sessions, on this machine or in an object store.
//!
//! A path such as `s3://bucket/run/session` names objects. [`std::path::Path::join`] extends it like any other path, so the rest of
//! rankscope passes it on unchanged. Only this module distinguishes both kinds, as the virtual file systems of GDAL do.
//!
//! | file | content |
//! |---|---|
//! | [`remote`] | what an object store must do; the one that the program registered |
//! | [`access`] | existence, lists, whole files |
//! | `requests` | ranges of an object as requests of limited size |
//! | [`ranged`] | a Parquet file that is read by ranges |
//!
//! This crate contains no client of object stores. The programs register that of `rankscope-remote`.

mod access;
#[cfg(feature = "session")]
mod ranged;
mod remote;
mod requests;

pub use access::{Entry, create_directory, find, list, may_exist, open_stream, read, remove};
#[cfg(feature = "session")]
pub use ranged::{OpenFile, open};
pub use remote::{Found, Remote, RemoteFile, Upload, is_remote, register, remote};
