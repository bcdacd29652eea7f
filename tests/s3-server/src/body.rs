//! The body of an answer: its bytes are counted, and a fault can cut it or hold it up.

use crate::connection::Flushes;
use crate::record::Record;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Sleep, sleep};

/// The error of everything that is lost on purpose.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What happens within a body, and after how many bytes.
pub(crate) enum Break {
    /// The connection closes.
    Cut(Flushes, Option<u64>),
    /// Nothing is sent for this long.
    Pause(Duration, Option<Pin<Box<Sleep>>>),
}

/// A body that is counted.
pub(crate) struct AnswerBody {
    inner: s3s::Body,
    /// The end of a piece of `inner` that a break divides.
    rest: Option<Bytes>,
    /// Bytes until the break.
    fault: Option<(u64, Break)>,
    record: Arc<Record>,
}

impl AnswerBody {
    /// This body, with a break after some bytes.
    pub(crate) fn new(inner: s3s::Body, fault: Option<(u64, Break)>, record: Arc<Record>) -> Self {
        Self {
            inner,
            rest: None,
            fault,
            record,
        }
    }

    fn poll_break(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        match &mut self.fault {
            Some((0, Break::Cut(flushes, since))) => {
                ready!(flushes.poll_next(since, context));
                return Poll::Ready(Err("a fault cuts the body".into()));
            }
            Some((0, Break::Pause(pause, sleeping))) => {
                let pause = *pause;
                let sleeping = sleeping.get_or_insert_with(|| Box::pin(sleep(pause)));
                ready!(sleeping.as_mut().poll(context));
                self.fault = None;
            }
            _ => {}
        }
        Poll::Ready(Ok(()))
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let this = self.get_mut();
        if let Err(failure) = ready!(this.poll_break(context)) {
            return Poll::Ready(Some(Err(failure)));
        }
        let mut bytes = match this.rest.take() {
            Some(rest) => rest,
            None => match ready!(Pin::new(&mut this.inner).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => bytes,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                end => return Poll::Ready(end),
            },
        };
        if let Some((left, _)) = &mut this.fault {
            let before_break = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
            let rest = bytes.split_off(before_break);
            this.rest = Some(rest).filter(|rest| !rest.is_empty());
            *left -= before_break as u64;
        }
        this.record.sent(bytes.len());
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_none() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.rest {
            None => self.inner.size_hint(),
            Some(_) => SizeHint::default(),
        }
    }
}
