//! Errors of object stores, in the words of a user.

use std::error::Error;
use std::io;
use std::path::PathBuf;

/// Error of an object store.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// A path names no object.
    #[error("{path}: {why}", path = path.display())]
    Address {
        /// The path.
        path: PathBuf,
        /// Reason.
        why: &'static str,
    },
    /// The credentials or the configuration are not usable.
    #[error("{0}")]
    Configuration(String),
    /// A request failed.
    #[error(transparent)]
    Request(#[from] io::Error),
    /// A file of this machine could not be read or written.
    #[error("{path}: {cause}", path = path.display())]
    Local {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the error.
        cause: io::Error,
    },
    /// A request for an object failed.
    #[error("{path}: {cause}", path = path.display())]
    Object {
        /// Path of the object.
        path: PathBuf,
        /// Cause of the error.
        cause: io::Error,
    },
    /// An object is no longer the one that was listed or read first.
    #[error("{path} was replaced while it was read; run the command again", path = path.display())]
    Changed {
        /// Path of the object.
        path: PathBuf,
    },
    /// Another program wrote into the same directory.
    #[error(
        "{path} was replaced by another program while this one wrote there; merge again, one program at a time",
        path = path.display()
    )]
    Replaced {
        /// Path of the object.
        path: PathBuf,
    },
}

impl From<RemoteError> for io::Error {
    fn from(error: RemoteError) -> Self {
        match error {
            RemoteError::Request(error) => error,
            RemoteError::Address { .. } => Self::new(io::ErrorKind::InvalidInput, error.to_string()),
            other => Self::other(other.to_string()),
        }
    }
}

/// Returns an error with the innermost cause, which says what happened. The outer ones name the library and the request.
pub fn io_error(error: object_store::Error) -> io::Error {
    use object_store::Error as StoreError;
    let cause = shortened(&without_queries(&innermost(&error)));
    let denied =
        "the object store denied access: check the credentials and their permissions for this bucket";
    let rejected = "the object store rejected the credentials";
    let (kind, what) = match (&error, cause.as_str()) {
        (_, "NoSuchBucket" | "ContainerNotFound") => {
            return io::Error::new(io::ErrorKind::NotFound, "no such bucket");
        }
        (_, "SignatureDoesNotMatch" | "InvalidAccessKeyId" | "ExpiredToken")
        | (StoreError::Unauthenticated { .. }, _) => (io::ErrorKind::PermissionDenied, rejected),
        (StoreError::NotFound { .. }, _) => {
            return io::Error::new(io::ErrorKind::NotFound, "no such object or bucket");
        }
        (_, "AccessDenied") | (StoreError::PermissionDenied { .. }, _) => {
            (io::ErrorKind::PermissionDenied, denied)
        }
        (StoreError::Precondition { .. }, _) => {
            return io::Error::other("the object was replaced while it was read; run the command again");
        }
        _ => (io::ErrorKind::Other, "the object store failed"),
    };
    io::Error::new(kind, format!("{what} ({cause})"))
}

/// Returns the first line of a text, at most 300 characters, without an empty body at its end.
fn shortened(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default().trim_end();
    line.chars()
        .take(300)
        .collect::<String>()
        .trim_end_matches([':', ' '])
        .to_owned()
}

fn innermost(error: &object_store::Error) -> String {
    let mut causes = Vec::new();
    let mut cause: Option<&dyn Error> = Some(error);
    while let Some(error) = cause {
        causes.push(error.to_string());
        cause = error.source();
    }
    // The stores answer with a document.
    if let Some(code) = causes.iter().rev().find_map(|cause| code_in(cause)) {
        return code.to_owned();
    }
    // The last two differ: "error sending request" and "connection refused".
    causes.dedup();
    let last = causes.pop().unwrap_or_default();
    match causes.pop() {
        Some(before) if causes.len() > 1 && !before.contains(&last) => format!("{before}: {last}"),
        _ => last,
    }
}

/// Returns the code of an error document.
fn code_in(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("<Code>")?;
    rest.split_once("</Code>").map(|(code, _)| code)
}

/// Removes the queries of URLs: those of Azure contain a signature.
fn without_queries(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, word) in text.split(' ').enumerate() {
        if at > 0 {
            out.push(' ');
        }
        match word.split_once('?') {
            Some((url, query)) if url.contains("://") => {
                out.push_str(url);
                let punctuation = query.trim_end_matches([')', ':', ',']).len();
                out.push_str(&query[punctuation..]);
            }
            _ => out.push_str(word),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_not_shown() {
        let text = "error for url (https://a.blob.core.windows.net/c/x?sv=1&sig=secret): refused, why?";
        assert_eq!(
            without_queries(text),
            "error for url (https://a.blob.core.windows.net/c/x): refused, why?"
        );
    }
}
