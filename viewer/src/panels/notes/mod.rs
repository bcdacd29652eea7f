//! Bookmarks and notes: time ranges with a text, kept in a file next to the session.
//!
//! [`file`](self::file) reads and writes that file, [`saver`] does so on a background thread, and [`list`] shows the
//! notes.

mod file;
mod list;
mod saver;

pub use list::NotesPanel;

use crate::model::Window;
use rankscope_formats::ids::RankIndex;
use saver::{Change, Saver};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// A time range with a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// ID of the note: its creation time in µs since 1970, or the next free number.
    pub id: u64,
    /// Time range, in nanoseconds on the session's axis.
    #[serde(flatten)]
    pub at: Window,
    /// Rank of the note, as its position in the session; `null` for all ranks.
    pub rank: Option<RankIndex>,
    /// Text; empty for a bookmark.
    pub text: String,
}

/// The notes of a session. Changes are visible at once, and a background thread writes them to the file.
pub struct Notes {
    path: PathBuf,
    notes: Vec<Note>,
    /// The reason why the file must not be changed.
    read_only: Option<String>,
    /// The reason why the last change is not in the file.
    not_saved: Option<String>,
    /// Number of changes that are not confirmed yet.
    under_way: usize,
    saver: Option<Saver>,
    /// Called on another thread after an attempt to write a change.
    wake: Arc<dyn Fn() + Send + Sync>,
}

/// Error of a change.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The file could not be read, and is not overwritten.
    #[error("notes cannot be changed: {0}")]
    ReadOnly(String),
    /// The writer thread could not be started.
    #[error("notes cannot be written: {0}")]
    NoThread(String),
}

impl Notes {
    /// Loads the notes of a session directory. It reads a small file, so do not call it on the drawing thread.
    ///
    /// Calls `wake` on another thread after an attempt to write a change. The caller must then draw again.
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

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns all notes in the order of time.
    pub fn all(&self) -> &[Note] {
        &self.notes
    }

    /// Returns the reason if notes are read-only.
    pub fn read_only(&self) -> Option<&str> {
        self.read_only.as_deref()
    }

    /// Returns the reason if the last change is not in the file.
    pub fn not_saved(&self) -> Option<&str> {
        self.not_saved.as_deref()
    }

    /// Returns true while changes are being written.
    pub fn is_saving(&self) -> bool {
        self.under_way > 0
    }

    /// Returns the marks on the time axis: time range and text.
    pub fn marks(&self) -> impl Iterator<Item = (Window, &str)> {
        self.notes.iter().map(|note| (note.at, note.text.as_str()))
    }

    /// Adds a note, and returns its ID.
    pub fn add(
        &mut self,
        at: Window,
        rank: Option<RankIndex>,
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

    /// Changes the text of a note.
    pub fn edit(&mut self, id: u64, text: impl Into<String>) -> Result<(), ChangeError> {
        let text = text.into();
        self.change(Change::Edit { id, text })
    }

    /// Removes a note, and returns it. [`Notes::put_back`] undoes this.
    pub fn remove(&mut self, id: u64) -> Result<Option<Note>, ChangeError> {
        let note = self.notes.iter().find(|note| note.id == id).cloned();
        self.change(Change::Remove(id))?;
        Ok(note)
    }

    /// Adds a note that was removed.
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
            // The next change starts another thread.
            self.saver = None;
            return Err(ChangeError::NoThread(
                "the thread that writes them ended unexpectedly".to_owned(),
            ));
        }
        change.apply(&mut self.notes);
        self.under_way += 1;
        Ok(())
    }

    /// Takes over the results of the writer thread. Call it once per frame.
    pub fn poll(&mut self) {
        let Some(saver) = &self.saver else {
            return;
        };
        for saved in saver.saved() {
            self.under_way = self.under_way.saturating_sub(1);
            match saved {
                Ok(in_file) => {
                    self.not_saved = None;
                    // Other viewers may have written notes. The file lacks own changes that are still pending.
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

/// Sorts notes and normalises their time ranges. A person may have written an empty or reversed one.
fn in_order(notes: &mut [Note]) {
    for note in notes.iter_mut() {
        note.at = Window::between(note.at.from_ns, note.at.to_ns);
    }
    notes.sort_by_key(|note| (note.at.from_ns, note.at.to_ns, note.id));
}

#[cfg(test)]
mod tests;
