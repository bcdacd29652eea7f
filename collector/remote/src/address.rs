//! Parts of a path in an object store, and `file://` in arguments.

use crate::error::RemoteError;
use object_store::path::Path as Key;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Protocol of an object store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Amazon S3.
    S3,
    /// Google Cloud Storage.
    Google,
    /// Azure Blob Storage.
    Azure,
}

/// A path in an object store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Protocol.
    pub protocol: Protocol,
    /// Bucket; of Azure, the container, with the account as `container@account.host` if the path has it.
    pub bucket: String,
    /// Name of an object, or beginning of such names.
    pub key: Key,
}

impl Address {
    /// Splits a path such as `s3://bucket/run/session`.
    ///
    /// # Errors
    /// It has no bucket, or a name that no object can have.
    pub fn of(path: &Path) -> Result<Self, RemoteError> {
        let wrong = |why: &'static str| RemoteError::Address {
            path: path.to_path_buf(),
            why,
        };
        let text = path.to_str().ok_or_else(|| wrong("it is not UTF-8"))?;
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("it has no scheme"))?;
        let protocol = match scheme {
            "s3" | "s3a" => Protocol::S3,
            "gs" => Protocol::Google,
            "az" | "azure" | "abfs" | "abfss" => Protocol::Azure,
            _ => return Err(wrong("the scheme is unknown: use s3://, gs:// or az://")),
        };
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(wrong("it has no bucket: write it as s3://bucket/path"));
        }
        let key = Key::parse(key.trim_end_matches('/')).map_err(|_| wrong(WRONG_NAME))?;
        Ok(Self {
            protocol,
            bucket: bucket.to_owned(),
            key,
        })
    }

    /// Returns the prefix of a request for a list; `None` for a whole bucket.
    pub fn prefix(&self) -> Option<&Key> {
        Some(&self.key).filter(|key| !key.as_ref().is_empty())
    }

    /// Returns the name of an object below this path, which is `directory`. `name` has `/` between its parts.
    ///
    /// # Errors
    /// No object can have this name.
    pub fn key_below(&self, directory: &Path, name: &str) -> Result<Key, RemoteError> {
        let parsed = match self.prefix() {
            None => Key::parse(name),
            Some(prefix) => Key::parse(format!("{prefix}/{name}")),
        };
        parsed.map_err(|_| RemoteError::Address {
            path: below(directory, name),
            why: WRONG_NAME,
        })
    }
}

/// Reason why no object can have a name.
const WRONG_NAME: &str = "the name of an object cannot have empty parts, `.`, `..` or control characters";

/// Replaces URLs of local files by their paths, alone or as the value of an option: `file:///a`, `--output=file:///a`.
pub fn local_paths(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    arguments.into_iter().map(local_path).collect()
}

fn local_path(argument: OsString) -> OsString {
    const SCHEME: &[u8] = b"file://";
    let bytes = argument.as_bytes();
    let start = match bytes
        .strip_prefix(b"--")
        .and_then(|rest| rest.iter().position(|&byte| byte == b'='))
    {
        Some(equals) => equals + 3,
        None => 0,
    };
    let Some(path) = bytes[start..].strip_prefix(SCHEME) else {
        return argument;
    };
    // A URL may name this machine.
    let path = path.strip_prefix(b"localhost").unwrap_or(path);
    if path.first() != Some(&b'/') {
        return argument;
    }
    let mut local = bytes[..start].to_vec();
    local.extend(decoded(path));
    OsString::from_vec(local)
}

/// Decodes `%20` and the like.
fn decoded(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&first, after)) = rest.split_first() {
        let code = after
            .get(..2)
            .filter(|_| first == b'%')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match code {
            Some(byte) => {
                out.push(byte);
                rest = &after[2..];
            }
            None => {
                out.push(first);
                rest = after;
            }
        }
    }
    out
}

/// Returns the path of an object below a directory. `name` has `/` between its parts.
pub fn below(directory: &Path, name: &str) -> PathBuf {
    directory.join(OsStr::new(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_a_bucket_and_a_key() {
        let address = Address::of(Path::new("s3://bucket/a/rank=0.parquet")).expect("an address");
        assert_eq!(address.protocol, Protocol::S3);
        assert_eq!(address.bucket, "bucket");
        assert_eq!(address.key.as_ref(), "a/rank=0.parquet");
        let root = Address::of(Path::new("gs://bucket")).expect("an address");
        assert_eq!(root.key.as_ref(), "");
        assert_eq!(Address::of(Path::new("gs://bucket/")).expect("an address"), root);
        let azure = Address::of(Path::new("abfss://c@account.dfs.core.windows.net/x y")).expect("an address");
        assert_eq!(
            (azure.bucket.as_str(), azure.key.as_ref()),
            ("c@account.dfs.core.windows.net", "x y")
        );
        for wrong in [
            "s3://",
            "s3:///key",
            "ftp://host/x",
            "s3://bucket/a//b",
            "s3://bucket/a/../b",
        ] {
            let error = Address::of(Path::new(wrong)).expect_err(wrong);
            assert!(error.to_string().contains(wrong), "{error}");
        }
    }

    #[test]
    fn urls_of_files_are_paths() {
        let of = |text: &str| local_path(OsString::from(text)).into_string().expect("UTF-8");
        assert_eq!(of("file:///a/b%20c"), "/a/b c");
        assert_eq!(of("file://localhost/a"), "/a");
        assert_eq!(of("--output=file:///a%"), "--output=/a%");
        for same in [
            "run",
            "file://host/a",
            "s3://bucket/x",
            "select 'file:///a'",
            "--x=y",
            "-o",
        ] {
            assert_eq!(of(same), same);
        }
    }
}
