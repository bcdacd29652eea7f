//! The layer for [`tracing_subscriber`].

use crate::access::{Builder, api};
use crate::fields::Fields;
use crate::{names, spans};
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Event, Metadata, Subscriber};
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
pub struct RankscopeLayer(());

impl RankscopeLayer {
    pub(crate) const fn new() -> Self {
        Self(())
    }
}

/// Returns the number of a span in the recording. The highest bit separates it from spans of the C functions.
#[inline]
fn number(id: &Id) -> u64 {
    id.into_u64() & !(1 << 63)
}

impl<S> Layer<S> for RankscopeLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(api) = api() else { return };
        let parent = if attributes.is_contextual() {
            context.current_span().id().map_or(0, number)
        } else {
            attributes.parent().map_or(0, number)
        };
        let text = names::number(api, attributes.metadata().name());
        (api.begin_span)(text, number(id), parent);
        attributes.record(&mut Fields::of_span(api, number(id)));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        if let Some(api) = api() {
            values.record(&mut Fields::of_span(api, number(id)));
        }
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, context: Context<'_, S>) {
        if let Some((api, metadata)) = api().zip(context.metadata(id)) {
            (api.follows)(text_of(metadata), number(id), number(follows));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let Some(api) = api() else { return };
        let span = if event.is_contextual() {
            context.current_span().id().map_or(0, number)
        } else {
            event.parent().map_or(0, number)
        };
        let mut fields = Fields::of_event(api, span);
        event.record(&mut fields);
        let text = fields
            .message
            .unwrap_or_else(|| names::number(api, event.metadata().name()));
        (api.event)(text, span);
    }

    #[inline]
    fn on_enter(&self, id: &Id, _: Context<'_, S>) {
        if let Some(api) = api() {
            spans::enter(number(id), (api.now)());
        }
    }

    #[inline]
    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        if let Some(api) = api()
            && let Some(ticks) = spans::exit(number(id))
            && let Some(metadata) = context.metadata(id)
        {
            (api.entered_span)(text_of(metadata), number(id), ticks);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        if let Some(api) = api()
            && let Some(metadata) = context.metadata(&id)
        {
            (api.end_span)(text_of(metadata), number(&id));
        }
    }
}

#[inline]
fn text_of(metadata: &'static Metadata<'static>) -> u32 {
    api().map_or(u32::MAX, |api| names::number(api, metadata.name()))
}
