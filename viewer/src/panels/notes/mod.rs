//! Bookmarks and notes: stretches of time with a text, kept in a file beside the session.
//!
//! [`file`](self::file) is that file, [`saver`] writes it, [`list`] shows them.

mod file;
mod list;
mod saver;

pub use list::NotesPanel;

use crate::model::Window;
use saver::{Change, Saver};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// A stretch of time with a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Its number: µs since 1970 when it was made, or the next that is free.
    pub id: u64,
    /// When, ns on the session's axis.
    #[serde(flatten)]
    pub at: Window,
    /// On which rank: position in the session; `null` for all.
    pub rank: Option<u32>,
    /// What it says; empty for a bookmark.
    pub text: String,
}

/// The notes of a session. What is changed is seen at once, and written to the file by another thread.
pub struct Notes {
    path: PathBuf,
    notes: Vec<Note>,
    /// Why the file is left as it is.
    read_only: Option<String>,
    /// Why the last change is not in the file.
    not_saved: Option<String>,
    /// Changes of which it is not known yet what became of them.
    under_way: usize,
    saver: Option<Saver>,
    /// Called from another thread when a change was written, or not.
    wake: Arc<dyn Fn() + Send + Sync>,
}

/// A change that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The file could not be read, and is not overwritten.
    #[error("notes cannot be changed: {0}")]
    ReadOnly(String),
    /// There is no thread to write it.
    #[error("notes cannot be written: {0}")]
    NoThread(String),
}

impl Notes {
    /// Those of the session in a directory. A small file is read: not in the thread that draws. `wake` is called from
    /// another thread when a change was written, or could not be: draw again then.
    pub fn load(session: &Path, wake: impl Fn() + Send + Sync + 'static) -> Self {
        let path = file::path_of(session);
        let (mut notes, read_only) = match file::read(&path) {
            Ok(notes) => (notes, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        in_order(&mut notes);
        Self {
            path,
            notes,
            read_only,
            not_saved: None,
            under_way: 0,
            saver: None,
            wake: Arc::new(wake),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// In order of time.
    pub fn all(&self) -> &[Note] {
        &self.notes
    }

    /// Why notes can only be read, if so.
    pub fn read_only(&self) -> Option<&str> {
        self.read_only.as_deref()
    }

    /// Why the last change is not in the file, if so.
    pub fn not_saved(&self) -> Option<&str> {
        self.not_saved.as_deref()
    }

    /// True while changes are being written.
    pub fn is_saving(&self) -> bool {
        self.under_way > 0
    }

    /// What to mark on the time axis: when, and the text.
    pub fn marks(&self) -> impl Iterator<Item = (Window, &str)> {
        self.notes.iter().map(|note| (note.at, note.text.as_str()))
    }

    /// Adds one, and says its number.
    pub fn add(
        &mut self,
        at: Window,
        rank: Option<u32>,
        text: impl Into<String>,
    ) -> Result<u64, ChangeError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_us = now.map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(0));
        let taken = self.notes.iter().map(|note| note.id).max();
        let id = now_us.max(taken.map_or(1, |taken| taken.saturating_add(1)));
        let text = text.into();
        self.change(Change::Put(Note { id, at, rank, text }))?;
        Ok(id)
    }

    /// Gives one another text.
    pub fn edit(&mut self, id: u64, text: impl Into<String>) -> Result<(), ChangeError> {
        let text = text.into();
        self.change(Change::Edit { id, text })
    }

    /// Removes one, and hands it out: [`Notes::put_back`] makes it undone.
    pub fn remove(&mut self, id: u64) -> Result<Option<Note>, ChangeError> {
        let note = self.notes.iter().find(|note| note.id == id).cloned();
        self.change(Change::Remove(id))?;
        Ok(note)
    }

    /// Adds one that was removed.
    pub fn put_back(&mut self, note: Note) -> Result<(), ChangeError> {
        self.change(Change::Put(note))
    }

    fn change(&mut self, change: Change) -> Result<(), ChangeError> {
        if let Some(reason) = &self.read_only {
            return Err(ChangeError::ReadOnly(reason.clone()));
        }
        let saver = match &mut self.saver {
            Some(saver) => saver,
            none => {
                let wake = self.wake.clone();
                let saver = Saver::start(self.path.clone(), move || wake())
                    .map_err(|error| ChangeError::NoThread(error.to_string()))?;
                none.insert(saver)
            }
        };
        if !saver.save(change.clone()) {
            // The next change gets another one.
            self.saver = None;
            return Err(ChangeError::NoThread("its thread ended unexpectedly".to_owned()));
        }
        change.apply(&mut self.notes);
        self.under_way += 1;
        Ok(())
    }

    /// Takes note of what was written meanwhile; once per frame.
    pub fn poll(&mut self) {
        let Some(saver) = &self.saver else {
            return;
        };
        for saved in saver.saved() {
            self.under_way = self.under_way.saturating_sub(1);
            match saved {
                Ok(in_file) => {
                    self.not_saved = None;
                    // Others may have written some; changes of ours that are still to come are not in there.
                    if self.under_way == 0 {
                        self.notes = in_file;
                        in_order(&mut self.notes);
                    }
                }
                Err(error) => self.not_saved = Some(error),
            }
        }
    }
}

/// As read, a stretch may be empty or turned round: a person may have written it.
fn in_order(notes: &mut [Note]) {
    for note in notes.iter_mut() {
        note.at = Window::between(note.at.from_ns, note.at.to_ns);
    }
    notes.sort_by_key(|note| (note.at.from_ns, note.at.to_ns, note.id));
}

#[cfg(test)]
mod tests;
