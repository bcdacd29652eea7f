//! The ETags of objects.
//!
//! `s3s-fs` stores the ETag of an uploaded object in a file beside the bucket. Objects that a test copied into the
//! bucket's directory have none, and `s3s-fs` would hash them at every read. Here the first use writes that file. A file
//! that was written after its ETag has a new one.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use s3s::crypto::{Checksum, Md5};
use s3s::{S3Result, s3_error};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The longest name of a file.
const LONGEST_NAME: usize = 255;

/// The length of `.upload-ID`, which the name of an upload's file has in addition.
const UPLOAD_LENGTH: usize = 44;

/// The ETags below a root.
#[derive(Debug)]
pub(crate) struct Tags {
    root: PathBuf,
    writing: Mutex<()>,
}

impl Tags {
    /// Of all buckets in this directory.
    pub(crate) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            writing: Mutex::default(),
        }
    }

    /// The name that `s3s-fs` gives the file.
    fn place(&self, bucket: &str, key: &str) -> PathBuf {
        let (bucket, key) = (URL_SAFE_NO_PAD.encode(bucket), URL_SAFE_NO_PAD.encode(key));
        self.root
            .join(format!(".bucket-{bucket}.object-{key}.internal.json"))
    }

    /// The ETag of an object, without quotes.
    pub(crate) fn of(&self, bucket: &str, key: &str) -> io::Result<String> {
        let object = self.root.join(bucket).join(key);
        let place = self.place(bucket, key);
        if let Some(tag) = stored(&object, &place) {
            return Ok(tag);
        }
        let _one = self.writing.lock().expect("no thread panicked");
        if let Some(tag) = stored(&object, &place) {
            return Ok(tag);
        }
        let tag = hash(&object)?;
        // A key too long for a file name has no place. It is hashed again.
        let _ = fs::write(&place, json!({ "e_tag": tag }).to_string());
        Ok(tag)
    }

    /// Refuses to write an object whose key `s3s-fs` cannot have in the names of its files. S3 allows 1024 bytes.
    pub(crate) fn fits(&self, bucket: &str, key: &str) -> S3Result<()> {
        let length = self.place(bucket, key).file_name().map_or(0, OsStr::len);
        if length + UPLOAD_LENGTH > LONGEST_NAME {
            return Err(s3_error!(
                KeyTooLongError,
                "this server stores keys of about 130 bytes"
            ));
        }
        Ok(())
    }

    /// Forgets an object that is being removed or replaced.
    pub(crate) fn forget(&self, bucket: &str, key: &str) {
        // It is missing if nobody has read the object.
        let _ = fs::remove_file(self.place(bucket, key));
    }
}

fn stored(object: &Path, place: &Path) -> Option<String> {
    let changed = |path| fs::metadata(path).and_then(|of| of.modified()).ok();
    if changed(object)? > changed(place)? {
        return None;
    }
    let content: Value = serde_json::from_slice(&fs::read(place).ok()?).ok()?;
    Some(content.get("e_tag")?.as_str()?.to_owned())
}

/// The MD5 sum of a file, as hexadecimal digits.
fn hash(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut sum = Md5::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = file.read(&mut buffer)?;
        if length == 0 {
            break;
        }
        sum.update(&buffer[..length]);
    }
    Ok(sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
