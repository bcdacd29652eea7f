//! What clients asked for, and how many bytes they moved.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

/// A request that arrived, also if a fault then refused it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The HTTP method.
    pub method: String,
    /// `/BUCKET/KEY`, without percent encoding.
    pub path: String,
    /// The query as it was sent, without the question mark.
    pub query: String,
    /// The header `Range`: `bytes=0-99`.
    pub range: Option<String>,
}

/// Sums over all requests since the start, or since they were reset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests by HTTP method.
    pub requests: BTreeMap<String, u64>,
    /// Bytes of the bodies of requests.
    pub bytes_received: u64,
    /// Bytes of the bodies of answers. A cut body counts with the bytes that were sent.
    pub bytes_sent: u64,
}

impl Counters {
    /// Number of requests with a method.
    #[must_use]
    pub fn of(&self, method: &str) -> u64 {
        self.requests.get(method).copied().unwrap_or(0)
    }

    /// Number of all requests.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.requests.values().sum()
    }
}

/// The requests of a server, filled by its connections.
#[derive(Debug, Default)]
pub(crate) struct Record(Mutex<Content>);

#[derive(Debug, Default)]
struct Content {
    requests: Vec<Request>,
    counters: Counters,
}

impl Record {
    fn content(&self) -> MutexGuard<'_, Content> {
        self.0.lock().expect("no thread panicked")
    }

    /// Adds a request with the size of its body.
    pub(crate) fn request(&self, request: Request, body: usize) {
        let mut content = self.content();
        *content
            .counters
            .requests
            .entry(request.method.clone())
            .or_default() += 1;
        content.counters.bytes_received += body as u64;
        content.requests.push(request);
    }

    /// Adds bytes of an answer's body.
    pub(crate) fn sent(&self, bytes: usize) {
        self.content().counters.bytes_sent += bytes as u64;
    }

    /// A copy of the sums.
    pub(crate) fn counters(&self) -> Counters {
        self.content().counters.clone()
    }

    /// A copy of the requests, in the order of their arrival.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.content().requests.clone()
    }

    /// Forgets everything.
    pub(crate) fn reset(&self) {
        *self.content() = Content::default();
    }
}
