//! Opens the session to compare with.

use crate::open::{self, Opening};
use rankscope_formats::session::Session;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError};

/// State of the session to compare with, while it is not available.
#[derive(Default)]
pub enum Comparing {
    /// No session was requested, or it is already open.
    #[default]
    Idle,
    /// The session is being opened; the text describes the current activity.
    Opening(Receiver<Opening>, String),
    /// The session cannot be opened; the text is the reason.
    Failed(String),
}

impl Comparing {
    /// Opens a path in the same way as the main session. Calls `news` whenever there is something to show.
    pub fn start(path: PathBuf, news: impl Fn() + Send + 'static) -> Self {
        let doing = format!("Opening {}", path.display());
        Self::Opening(open::start(vec![path], news), doing)
    }

    /// Returns the session once it has been read.
    pub fn poll(&mut self) -> Option<(PathBuf, Session)> {
        loop {
            let Self::Opening(pending, doing) = self else {
                return None;
            };
            match pending.try_recv() {
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

    /// Returns true while the session is being opened.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Opening(..))
    }

    /// Returns the reason why the session cannot be opened.
    pub fn failure(&self) -> Option<&str> {
        match self {
            Self::Failed(why) => Some(why),
            _ => None,
        }
    }
}
