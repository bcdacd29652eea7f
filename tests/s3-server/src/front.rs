//! What a request passes before and after the S3 protocol: the record, the latency and the faults.

use crate::body::{AnswerBody, Break, Failure};
use crate::connection::Flushes;
use crate::fault::{Effect, Fault, Refusal};
use crate::record::{Record, Request};
use crate::schedule::Schedule;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, RANGE};
use hyper::http::request::Parts;
use percent_encoding::percent_decode_str;
use s3s::service::S3Service;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::sleep;

/// The state that a server and its connections share.
pub(crate) struct Front {
    service: S3Service,
    /// Requests so far.
    pub(crate) record: Arc<Record>,
    schedule: Mutex<Schedule>,
    latency: Mutex<Duration>,
}

impl Front {
    /// In front of this service, without faults.
    pub(crate) fn new(service: S3Service) -> Self {
        Self {
            service,
            record: Arc::default(),
            schedule: Mutex::default(),
            latency: Mutex::default(),
        }
    }

    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().expect("no thread panicked")
    }

    /// Replaces the faults.
    pub(crate) fn set_faults(&self, faults: Vec<Fault>) {
        *self.schedule() = Schedule::new(faults);
    }

    /// How often each fault has fired.
    pub(crate) fn fired(&self) -> Vec<u64> {
        self.schedule().fired()
    }

    /// Replaces the latency.
    pub(crate) fn set_latency(&self, latency: Duration) {
        *self.latency.lock().expect("no thread panicked") = latency;
    }

    /// Answers a request of a connection. An error closes the connection without an answer.
    ///
    /// The whole body of the request is read first. Otherwise a refused client could lose the answer while it writes.
    pub(crate) async fn answer(
        self: Arc<Self>,
        request: hyper::Request<Incoming>,
        flushes: Flushes,
    ) -> Result<hyper::Response<AnswerBody>, Failure> {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let described = describe(&head);
        let effect = self
            .schedule()
            .effect(&described.method, &described.path, &described.query);
        self.record.request(described, body.len());
        let latency = *self.latency.lock().expect("no thread panicked");
        if !latency.is_zero() {
            sleep(latency).await;
        }
        match effect {
            Some(Effect::Answer(refusal)) => return self.refuse(refusal),
            Some(Effect::Close) => return Err("a fault closes the connection".into()),
            Some(Effect::Stall(pause)) => sleep(pause).await,
            _ => {}
        }
        let answer = self
            .service
            .call(hyper::Request::from_parts(head, body.into()))
            .await?;
        let fault = match effect {
            Some(Effect::LoseAnswer) => return Err("a fault loses the answer".into()),
            Some(Effect::CutBody { after }) => Some((after, Break::Cut(flushes, None))),
            Some(Effect::StallBody { after, pause }) => Some((after, Break::Pause(pause, None))),
            _ => None,
        };
        Ok(answer.map(|body| AnswerBody::new(body, fault, self.record.clone())))
    }

    fn refuse(&self, refusal: Refusal) -> Result<hyper::Response<AnswerBody>, Failure> {
        let (status, code, message) = refusal.answer();
        let text = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <Error><Code>{code}</Code><Message>{message}</Message></Error>"
        );
        let body = AnswerBody::new(text.into(), None, self.record.clone());
        let answer = hyper::Response::builder()
            .status(status)
            .header(CONTENT_TYPE, "application/xml")
            .body(body)?;
        Ok(answer)
    }
}

fn describe(head: &Parts) -> Request {
    Request {
        method: head.method.to_string(),
        path: percent_decode_str(head.uri.path())
            .decode_utf8_lossy()
            .into_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        range: head
            .headers
            .get(RANGE)
            .and_then(|range| range.to_str().ok())
            .map(str::to_owned),
    }
}
