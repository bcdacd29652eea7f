//! Writes changes of notes to their file, on a thread of its own and in their order.
//!
//! Each change is made to what is in the file at that moment: of two viewers of one session none undoes what the other wrote.

use super::Note;
use super::file;
use std::fs::File;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

/// Something done to the notes.
#[derive(Clone, Debug)]
pub enum Change {
    /// This one is there, new or again.
    Put(Note),
    /// This one says something else.
    Edit {
        /// Its number.
        id: u64,
        /// What it says now.
        text: String,
    },
    /// This one is gone.
    Remove(u64),
}

impl Change {
    /// Does it; notes are in order of time.
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

/// What became of a change: the notes as they are in the file, or why it is not there.
pub type Saved = Result<Vec<Note>, String>;

/// The thread. Dropped, it ends when all changes are written.
pub struct Saver {
    changes: Option<Sender<Change>>,
    saved: Receiver<Saved>,
    thread: Option<JoinHandle<()>>,
}

impl Saver {
    /// For a file. `done` is called after each change.
    pub fn start(path: PathBuf, done: impl Fn() + Send + 'static) -> std::io::Result<Self> {
        let (changes, to_do) = channel::<Change>();
        let (tell, saved) = channel();
        let thread = thread::Builder::new().name("notes".to_owned()).spawn(move || {
            // What could not be written goes with the next change: a full disk is emptied some time.
            let mut not_written: Vec<Change> = Vec::new();
            for change in to_do {
                not_written.push(change);
                // Between reading and writing nobody else does either. Where a file system has no locks it is as good as can be.
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
                // Where nobody listens any more it is written all the same.
                let _ = tell.send(result);
                done();
            }
        })?;
        Ok(Self {
            changes: Some(changes),
            saved,
            thread: Some(thread),
        })
    }

    /// Has a change written; false if the thread is gone.
    pub fn save(&self, change: Change) -> bool {
        self.changes
            .as_ref()
            .is_some_and(|changes| changes.send(change).is_ok())
    }

    /// What became of changes since the last time, in their order.
    pub fn saved(&self) -> impl Iterator<Item = Saved> + '_ {
        self.saved.try_iter()
    }
}

impl Drop for Saver {
    fn drop(&mut self) {
        drop(self.changes.take());
        if let Some(thread) = self.thread.take() {
            // If it panicked there is nothing left to wait for.
            let _ = thread.join();
        }
    }
}
