//! The other session on its way: from a path to something to compare with.

use crate::open::{self, Opening};
use rankscope_formats::session::Session;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError};

/// What becomes of a path that was asked for.
#[derive(Default)]
pub enum Comparing {
    /// Nothing was asked for, or it is open.
    #[default]
    Idle,
    /// This is being done for it.
    Opening(Receiver<Opening>, String),
    /// It cannot be opened: why.
    Failed(String),
}

impl Comparing {
    /// Opens a path as one would be opened to be looked at; `news` is called whenever there is something to show.
    pub fn start(path: PathBuf, news: impl Fn() + Send + 'static) -> Self {
        let doing = format!("opening {}", path.display());
        Self::Opening(open::start(vec![path], news), doing)
    }

    /// The session, once it is there.
    pub fn poll(&mut self) -> Option<(PathBuf, Session)> {
        loop {
            let Self::Opening(coming, doing) = self else {
                return None;
            };
            match coming.try_recv() {
                Ok(Opening::Doing(what)) => *doing = what,
                Ok(Opening::Done(opened)) => {
                    *self = Self::Idle;
                    return Some(*opened);
                }
                Ok(Opening::Failed(why)) => *self = Self::Failed(why),
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Disconnected) => {
                    *self = Self::Failed(crate::panels::background::DIED.to_owned());
                }
            }
        }
    }

    /// True while it is being opened.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Opening(..))
    }

    /// Why it cannot be compared with.
    pub fn failure(&self) -> Option<&str> {
        match self {
            Self::Failed(why) => Some(why),
            _ => None,
        }
    }
}
