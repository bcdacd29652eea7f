//! What goes wrong, and for which requests.

use std::time::Duration;

/// One injected failure: the requests that it matches, the matches at which it fires, and its effect.
///
/// A new fault fires at every match.
#[derive(Clone, Debug)]
pub struct Fault {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) skip: u64,
    pub(crate) every: u64,
    pub(crate) first: u64,
    pub(crate) effect: Effect,
}

/// What a fault does to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The server refuses the request and does not execute it.
    Answer(Refusal),
    /// The server does not execute the request, and closes the connection without an answer.
    Close,
    /// The server executes the request, and closes the connection without an answer. A client that retries repeats
    /// something that already happened.
    LoseAnswer,
    /// The server closes the connection after this many bytes of the answer's body. The header promises the whole body.
    CutBody {
        /// Bytes of the body that arrive. A shorter body arrives whole.
        after: u64,
    },
    /// The server waits before it executes the request. It does not execute it if the client leaves meanwhile.
    Stall(Duration),
    /// The server sends this many bytes of the answer's body, waits, and sends the rest.
    StallBody {
        /// Bytes of the body that arrive before the wait. A shorter body arrives without a wait.
        after: u64,
        /// The length of the wait.
        pause: Duration,
    },
}

/// An error that S3 answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// 503: too many requests. Clients retry.
    SlowDown,
    /// 500: a failure of the server. Clients retry.
    InternalError,
    /// 403: the keys do not allow the request.
    AccessDenied,
    /// 404: no object has this key.
    NoSuchKey,
}

impl Refusal {
    /// The HTTP status, the code in the XML and the message.
    pub(crate) fn answer(self) -> (u16, &'static str, &'static str) {
        match self {
            Self::SlowDown => (503, "SlowDown", "Please reduce your request rate."),
            Self::InternalError => (
                500,
                "InternalError",
                "We encountered an internal error. Please try again.",
            ),
            Self::AccessDenied => (403, "AccessDenied", "Access Denied"),
            Self::NoSuchKey => (404, "NoSuchKey", "The specified key does not exist."),
        }
    }
}

impl Fault {
    /// A fault of requests with this method whose path contains `path`. An empty text matches everything.
    ///
    /// The path is `/BUCKET/KEY`, without percent encoding.
    #[must_use]
    pub fn new(method: &str, path: &str, effect: Effect) -> Self {
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: String::new(),
            skip: 0,
            every: 1,
            first: u64::MAX,
            effect,
        }
    }

    /// Matches only requests whose query contains this text, as it was sent: `uploadId=`, `list-type=2`.
    #[must_use]
    pub fn query(mut self, query: &str) -> Self {
        query.clone_into(&mut self.query);
        self
    }

    /// Does not fire at the first `count` matches.
    #[must_use]
    pub fn skip(mut self, count: u64) -> Self {
        self.skip = count;
        self
    }

    /// Fires `count` times, then never again.
    #[must_use]
    pub fn first(mut self, count: u64) -> Self {
        self.first = count;
        self
    }

    /// Fires at every `step`-th match. The first one is match number `step`.
    #[must_use]
    pub fn every(mut self, step: u64) -> Self {
        assert!(step > 0, "a step of at least 1");
        self.every = step;
        self
    }
}
