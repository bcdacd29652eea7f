//! Writes changes of notes to their file, in order, on a background thread.
//!
//! Each change is applied to the current content of the file. So two viewers of one session do not undo each other's
//! changes.

use super::Note;
use super::file;
use std::fs::File;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

/// A change of the notes.
#[derive(Clone, Debug)]
pub enum Change {
    /// Adds or replaces a note.
    Put(Note),
    /// Changes the text of a note.
    Edit {
        /// ID of the note.
        id: u64,
        /// New text.
        text: String,
    },
    /// Removes a note.
    Remove(u64),
}

impl Change {
    /// Applies the change. The notes stay in the order of time.
    pub fn apply(&self, notes: &mut Vec<Note>) {
        match self {
            Self::Put(note) => {
                notes.retain(|other| other.id != note.id);
                let key = |note: &Note| (note.at.from_ns, note.at.to_ns, note.id);
                let at = notes.partition_point(|other| key(other) < key(note));
                notes.insert(at, note.clone());
            }
            Self::Edit { id, text } => {
                if let Some(note) = notes.iter_mut().find(|note| note.id == *id) {
                    note.text.clone_from(text);
                }
            }
            Self::Remove(id) => notes.retain(|note| note.id != *id),
        }
    }
}

/// Result of a change: the notes that are now in the file, or the reason why it was not written.
pub type Saved = Result<Vec<Note>, String>;

/// The writer thread. Dropping it waits until all changes are written.
pub struct Saver {
    changes: Option<Sender<Change>>,
    saved: Receiver<Saved>,
    thread: Option<JoinHandle<()>>,
}

impl Saver {
    /// Starts the writer of a file. Calls `done` after each change.
    pub fn start(path: PathBuf, done: impl Fn() + Send + 'static) -> std::io::Result<Self> {
        let (changes, to_do) = channel::<Change>();
        let (results, saved) = channel();
        let thread = thread::Builder::new().name("notes".to_owned()).spawn(move || {
            // A change that could not be written is retried with the next one, for example once a full disk has free
            // space again.
            let mut not_written: Vec<Change> = Vec::new();
            for change in to_do {
                not_written.push(change);
                // The lock excludes other viewers between reading and writing. On a file system without locks, this
                // race remains.
                let folder = path.parent().and_then(|folder| File::open(folder).ok());
                let _locked = folder.filter(|folder| folder.lock().is_ok());
                let result = file::read(&path)
                    .map_err(|error| error.to_string())
                    .and_then(|mut notes| {
                        not_written.iter().for_each(|change| change.apply(&mut notes));
                        file::write(&path, &notes)
                            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
                        Ok(notes)
                    });
                if result.is_ok() {
                    not_written.clear();
                }
                // The change is written even if nobody receives the result.
                let _ = results.send(result);
                done();
            }
        })?;
        Ok(Self {
            changes: Some(changes),
            saved,
            thread: Some(thread),
        })
    }

    /// Queues a change. Returns false if the thread has ended.
    pub fn save(&self, change: Change) -> bool {
        self.changes
            .as_ref()
            .is_some_and(|changes| changes.send(change).is_ok())
    }

    /// Returns the results since the last call, in order.
    pub fn saved(&self) -> impl Iterator<Item = Saved> + '_ {
        self.saved.try_iter()
    }
}

impl Drop for Saver {
    fn drop(&mut self) {
        drop(self.changes.take());
        if let Some(thread) = self.thread.take() {
            // After a panic there is nothing to wait for.
            let _ = thread.join();
        }
    }
}
