//! Multipart uploads that were begun, and neither completed nor aborted.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use s3s::dto::CompletedPart;
use s3s::{S3Result, s3_error};
use std::path::Path;
use std::{fs, io};

/// The least size of every part but the last one.
const LEAST_PART: u64 = 5 << 20;

/// A multipart upload in progress.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Upload {
    /// The bucket of the object.
    pub bucket: String,
    /// The key of the object.
    pub key: String,
    /// The identifier that the server gave the upload.
    pub id: String,
}

/// The uploads in progress below a root, in order. `s3s-fs` keeps a file for each.
pub(crate) fn in_progress(root: &Path) -> io::Result<Vec<Upload>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root)? {
        found.extend(entry?.file_name().to_str().and_then(parse));
    }
    found.sort();
    Ok(found)
}

/// The upload of a file `.bucket-BUCKET.object-KEY.upload-ID.metadata.json`.
fn parse(name: &str) -> Option<Upload> {
    let rest = name.strip_prefix(".bucket-")?.strip_suffix(".metadata.json")?;
    let (bucket, rest) = rest.split_once(".object-")?;
    let (key, id) = rest.split_once(".upload-")?;
    let decode = |text| String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok();
    Some(Upload {
        bucket: decode(bucket)?,
        key: decode(key)?,
        id: id.to_owned(),
    })
}

/// Refuses an upload that does not exist any more: `s3s-fs` calls it forbidden.
pub(crate) fn exists(root: &Path, id: &str) -> S3Result<()> {
    if root.join(format!(".upload-{id}.json")).exists() {
        Ok(())
    } else {
        Err(s3_error!(NoSuchUpload))
    }
}

/// Refuses to complete an upload of these parts if one is missing or too small.
///
/// `s3s-fs` checks this, too, but after it has removed the upload. On S3, the upload remains.
pub(crate) fn can_complete(root: &Path, id: &str, parts: &[CompletedPart]) -> S3Result<()> {
    for (index, part) in parts.iter().enumerate() {
        let number = part.part_number.unwrap_or_default();
        let path = root.join(format!(".upload_id-{id}.part-{number}"));
        let size = fs::metadata(path)
            .map_err(|error| s3_error!(error, InvalidPart))?
            .len();
        if size < LEAST_PART && index + 1 < parts.len() {
            return Err(s3_error!(EntityTooSmall));
        }
    }
    Ok(())
}
