//! The layer for [`tracing_subscriber`].

use crate::access::{Builder, api};
use crate::fields::Fields;
use crate::operations::Operations;
use crate::span_texts::SpanTexts;
use crate::{names, spans};
use rankscope_recorder::api::Api;
use std::sync::atomic::{AtomicU64, Ordering};
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// Starts the recording, and returns a layer that records spans and events.
///
/// Filter it as any other layer:
///
/// ```
/// use tracing_subscriber::filter::LevelFilter;
/// use tracing_subscriber::prelude::*;
///
/// let layer = rankscope_layer::layer().with_filter(LevelFilter::INFO);
/// tracing_subscriber::registry().with(layer).init();
/// ```
pub fn layer() -> RankscopeLayer {
    Builder::new().layer()
}

/// A layer that records spans and events. [`layer`] and [`Builder::layer`] create it.
#[derive(Debug)]
pub struct RankscopeLayer {
    /// Number of the layer in the upper bits of its spans: each registry numbers its own spans.
    prefix: u64,
    texts: SpanTexts,
    operations: Operations,
}

/// Number of layers in this process.
static LAYERS: AtomicU64 = AtomicU64::new(0);
/// Bits of a registry's number that are kept. The upper ones are a generation, which all open spans can spare.
const NUMBER_BITS: u32 = 56;

impl RankscopeLayer {
    pub(crate) fn new() -> Self {
        // The highest bit separates the spans from those of the C functions.
        let prefix = LAYERS.fetch_add(1, Ordering::Relaxed) & 0x7F;
        Self {
            prefix: prefix << NUMBER_BITS,
            texts: SpanTexts::new(),
            operations: Operations::new(),
        }
    }

    /// Returns the number of a span in the recording.
    #[inline]
    fn number(&self, id: &Id) -> u64 {
        self.prefix | id.into_u64() & ((1 << NUMBER_BITS) - 1)
    }

    /// Returns the number of a span's text.
    #[inline]
    fn text<S>(&self, api: &Api, id: &Id, context: &Context<'_, S>) -> Option<u32>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        self.texts.of(id.into_u64()).or_else(|| {
            let metadata = context.metadata(id)?;
            Some(names::number(api, metadata.name()))
        })
    }
}

impl<S> Layer<S> for RankscopeLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(api) = api() else { return };
        // Without spans that a filter disables for this layer.
        let parent = context.span(id).and_then(|span| span.parent());
        let parent = parent.map_or(0, |parent| self.number(&parent.id()));
        let text = names::number(api, attributes.metadata().name());
        self.texts.created(id.into_u64(), text);
        (api.begin_span)(text, self.number(id), parent);
        let mut fields = Fields::of_span(api, self.number(id));
        attributes.record(&mut fields);
        fields.known.define_world(api);
        self.operations.created(api, id.into_u64(), &fields.known);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        if let Some(api) = api() {
            let mut fields = Fields::of_span(api, self.number(id));
            values.record(&mut fields);
            fields.known.define_world(api);
        }
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, context: Context<'_, S>) {
        if let Some(api) = api()
            && let Some(text) = self.text(api, id, &context)
        {
            (api.follows)(text, self.number(id), self.number(follows));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let Some(api) = api() else { return };
        let span = context
            .event_span(event)
            .map_or(0, |span| self.number(&span.id()));
        let mut fields = Fields::of_event(api, span);
        event.record(&mut fields);
        fields.known.define_world(api);
        // Too many different messages: the event has its name, which is the line of the source.
        let message = fields.message.filter(|&text| text != u32::MAX);
        let text = message.unwrap_or_else(|| names::number(api, event.metadata().name()));
        (api.event)(text, span);
    }

    #[inline]
    fn on_enter(&self, id: &Id, _: Context<'_, S>) {
        if let Some(api) = api() {
            let is_operation = self.operations.entered(api, id.into_u64());
            let now = (api.now)();
            if !spans::enter(self.number(id), now, is_operation) {
                (api.count_too_deep)();
                if is_operation {
                    (api.end_collective)(0);
                }
            }
        }
    }

    #[inline]
    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        if let Some(api) = api()
            && let Some((ticks, is_operation)) = spans::exit(self.number(id))
        {
            if is_operation {
                (api.end_collective)(i32::from(std::thread::panicking()));
            }
            if let Some(text) = self.text(api, id, &context) {
                (api.entered_span)(text, self.number(id), ticks);
            }
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        self.operations.closed(id.into_u64());
        if let Some(api) = api()
            && let Some(text) = self.text(api, &id, &context)
        {
            (api.end_span)(text, self.number(&id));
        }
    }
}
