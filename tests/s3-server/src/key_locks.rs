//! One lock per object, so that a condition and the write after it are one step.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// Bucket and key.
type Key = (String, String);

/// The locks of all objects that were used.
#[derive(Debug, Default)]
pub(crate) struct KeyLocks(Mutex<HashMap<Key, Arc<RwLock<()>>>>);

impl KeyLocks {
    fn of(&self, bucket: &str, key: &str) -> Arc<RwLock<()>> {
        let mut locks = self.0.lock().expect("no thread panicked");
        locks
            .entry((bucket.to_owned(), key.to_owned()))
            .or_default()
            .clone()
    }

    /// Waits for writers.
    pub(crate) async fn read(&self, bucket: &str, key: &str) -> OwnedRwLockReadGuard<()> {
        self.of(bucket, key).read_owned().await
    }

    /// Waits for readers and writers.
    pub(crate) async fn write(&self, bucket: &str, key: &str) -> OwnedRwLockWriteGuard<()> {
        self.of(bucket, key).write_owned().await
    }
}
