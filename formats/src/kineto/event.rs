//! What one event says. Only what somebody asks for is kept; the rest is passed over without being copied.

use super::number::Microseconds;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// A string, borrowed from the file unless it holds an escape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text<'a> {
    /// As it stands there.
    Borrowed(&'a str),
    /// With its escapes resolved.
    Owned(String),
}

impl Text<'_> {
    /// The string.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Owned(text) => text,
        }
    }
}

impl Default for Text<'_> {
    fn default() -> Self {
        Self::Borrowed("")
    }
}

/// A process or a thread: a number, or a word where Kineto draws rows of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Id<'a> {
    /// None is told.
    #[default]
    None,
    /// A system id; of a device's event its ordinal and its stream.
    Number(i64),
    /// `Spans`, `Traces`, `stream 7`; quotes are cut off, escapes are not resolved.
    Word(&'a str),
}

/// What kind of event it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Category {
    /// An operator of PyTorch ran on a host thread.
    Operator,
    /// A range of the program, of PyTorch, or of its process groups on a host thread.
    Annotation,
    /// A call into the CUDA run-time library.
    Runtime,
    /// A call into the driver.
    Driver,
    /// A kernel ran.
    Kernel,
    /// Memory was copied.
    Copy,
    /// Memory was set.
    Set,
    /// The profiler itself: for how long it recorded.
    Trace,
    /// None is told.
    #[default]
    None,
    /// Something else.
    Other,
}

impl Category {
    /// Names changed in 2022; both are known.
    fn of(name: &str) -> Self {
        match name {
            "cpu_op" | "Operator" => Self::Operator,
            "user_annotation" => Self::Annotation,
            "cuda_runtime" | "Runtime" => Self::Runtime,
            "cuda_driver" => Self::Driver,
            "kernel" | "Kernel" => Self::Kernel,
            "gpu_memcpy" | "Memcpy" => Self::Copy,
            "gpu_memset" | "Memset" => Self::Set,
            "Trace" => Self::Trace,
            _ => Self::Other,
        }
    }

    /// Work of a device.
    pub fn is_work(self) -> bool {
        matches!(self, Self::Kernel | Self::Copy | Self::Set)
    }
}

/// An event.
#[derive(Clone, Debug, Default)]
pub struct Event<'a> {
    /// `X` a span, `i` an instant, `M` a name, `s` and `f` ends of an arrow; 0 if none is told.
    pub phase: u8,
    /// Its kind.
    pub category: Category,
    /// Its name.
    pub name: Text<'a>,
    /// Process, or device.
    pub process: Id<'a>,
    /// Thread, or stream.
    pub thread: Id<'a>,
    /// Begin, since the trace's base.
    pub start: Option<Microseconds<'a>>,
    /// Length.
    pub duration: Option<Microseconds<'a>>,
    /// What else is told.
    pub args: Args<'a>,
}

impl Event<'_> {
    /// Begin and end, ns since the trace's base; `None` if it is no span, or has no times that make sense.
    pub fn span_ns(&self) -> Option<(i64, i64)> {
        let start = self.start?.ns()?;
        let end = start.checked_add(self.duration?.ns()?.max(0))?;
        (self.phase == b'X').then_some((start, end))
    }
}

macro_rules! args {
    ($($(#[$doc:meta])* $field:ident : $key:literal;)*) => {
        /// Those `args` that mean something to an import, as they stand in the file: numbers, lists, strings in quotes.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Args<'a> {
            $($(#[$doc])* pub $field: Option<&'a str>,)*
        }

        impl<'de: 'a, 'a> Deserialize<'de> for Args<'a> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct ArgsVisitor;
                impl<'de> Visitor<'de> for ArgsVisitor {
                    type Value = Args<'de>;
                    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                        out.write_str("an object")
                    }
                    // Old versions write `"args": ""`.
                    fn visit_str<E: Error>(self, _: &str) -> Result<Self::Value, E> {
                        Ok(Args::default())
                    }
                    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
                        Ok(Args::default())
                    }
                    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                        let mut args = Args::default();
                        // A key that comes twice is no error to Kineto: the last one counts, as for other readers.
                        while let Some(key) = map.next_key::<Text<'de>>()? {
                            match key.as_str() {
                                $($key => args.$field = Some(map.next_value::<&RawValue>()?.get()),)*
                                _ => {
                                    map.next_value::<IgnoredAny>()?;
                                }
                            }
                        }
                        Ok(args)
                    }
                }
                deserializer.deserialize_any(ArgsVisitor)
            }
        }
    };
}

args! {
    /// Joins a call of the host with what it launched.
    correlation: "correlation";
    /// Number of the stream in its context.
    stream: "stream";
    /// Ordinal of the device.
    device: "device";
    /// Number of the context.
    context: "context";
    /// How much was copied or set.
    bytes: "bytes";
    /// Blocks, a list of three.
    grid: "grid";
    /// Threads of a block, a list of three.
    block: "block";
    /// CUPTI's number of the function that was called.
    function: "cbid";
    /// What a process group was asked for.
    collective: "Collective name";
    /// Elements that this rank gave.
    elements_in: "In msg nelems";
    /// Elements that this rank got.
    elements_out: "Out msg nelems";
    /// Elements to each member, a list in a string; empty: equal parts.
    split_in: "In split size";
    /// Elements from each member.
    split_out: "Out split size";
    /// Type of an element, as PyTorch calls it.
    element_type: "dtype";
    /// Members of the process group.
    group_size: "Group size";
    /// Its name, the same on all members.
    group_name: "Process Group Name";
    /// Its members' global ranks, a list in a string, with dots in the middle if it is long.
    group_ranks: "Process Group Ranks";
    /// The n-th operation of the process group.
    sequence: "Seq";
    /// Global rank from which a message comes.
    source_rank: "Src Rank";
    /// Global rank to which a message goes.
    destination_rank: "Dst Rank";
    /// Shapes of its inputs, a list of lists.
    input_dimensions: "Input Dims";
    /// Their types, a list of strings.
    input_types: "Input type";
    /// Values of its inputs that are no tensors, a list of strings.
    inputs: "Concrete Inputs";
    /// Of a name (`M`): a process's or thread's.
    name: "name";
}

/// A value as an integer; strings in quotes and fractions of zero are taken.
pub(super) fn integer(raw: &str) -> Option<i64> {
    let text = raw.trim_matches('"').trim();
    text.parse().ok().or_else(|| {
        let value: f64 = text.parse().ok()?;
        (value.fract() == 0.0 && value.abs() < 9e15).then_some(value as i64)
    })
}

impl<'a> Args<'a> {
    /// A value as an integer.
    pub fn integer(raw: Option<&str>) -> Option<i64> {
        integer(raw?)
    }

    /// A value as a string, without its quotes and with its escapes resolved; `None` also for an empty one.
    pub fn text(raw: Option<&'a str>) -> Option<Text<'a>> {
        let text: Text<'a> = serde_json::from_str(raw?).ok()?;
        (!text.as_str().is_empty()).then_some(text)
    }

    /// Three numbers; what is missing or no number is 1.
    pub fn dimensions(raw: Option<&str>) -> [u32; 3] {
        let mut out = [1; 3];
        if let Some(raw) = raw {
            let inside = raw.trim_start_matches('[').trim_end_matches(']');
            for (place, part) in out.iter_mut().zip(inside.split(',')) {
                *place = integer(part)
                    .and_then(|value| u32::try_from(value).ok())
                    .unwrap_or(1);
            }
        }
        out
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a string")
            }
            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text::Borrowed(text))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text::Owned(text.to_owned()))
            }
        }
        deserializer.deserialize_str(TextVisitor)
    }
}

fn id(raw: &RawValue) -> Id<'_> {
    match integer(raw.get()) {
        Some(number) => Id::Number(number),
        None if raw.get() == "null" => Id::None,
        None => Id::Word(raw.get().trim_matches('"')),
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Event<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EventVisitor;
        impl<'de> Visitor<'de> for EventVisitor {
            type Value = Event<'de>;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an event: an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut event = Event::default();
                while let Some(key) = map.next_key::<Text<'de>>()? {
                    match key.as_str() {
                        "ph" => {
                            let phase: Text<'de> = map.next_value()?;
                            event.phase = phase.as_str().bytes().next().unwrap_or(0);
                        }
                        "cat" => {
                            let category: Option<Text<'de>> = map.next_value()?;
                            event.category =
                                category.map_or(Category::None, |category| Category::of(category.as_str()));
                        }
                        "name" => event.name = map.next_value()?,
                        "pid" => event.process = id(map.next_value()?),
                        "tid" => event.thread = id(map.next_value()?),
                        "ts" => event.start = Some(Microseconds(map.next_value::<&RawValue>()?.get())),
                        "dur" => event.duration = Some(Microseconds(map.next_value::<&RawValue>()?.get())),
                        "args" => event.args = map.next_value()?,
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(event)
            }
        }
        deserializer.deserialize_map(EventVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_of_each_age_is_read() {
        let old = r#"{"ph": "X", "cat": "Kernel", "name": "k", "pid": 0, "tid": "stream 7", "ts": 12, "dur": 3,
            "args": {"queued": 0, "device": 0, "context": 1, "stream": "7", "correlation": 9, "grid": [1, 2, 3],
            "external id": 4, "memory bandwidth (GB/s)": 1.5}}"#;
        let event: Event<'_> = serde_json::from_str(old).expect("an event");
        assert_eq!(event.category, Category::Kernel);
        assert_eq!(event.thread, Id::Word("stream 7"));
        assert_eq!(event.span_ns(), Some((12_000, 15_000)));
        assert_eq!(Args::integer(event.args.stream), Some(7));
        assert_eq!(Args::dimensions(event.args.grid), [1, 2, 3]);
        assert_eq!(Args::dimensions(event.args.block), [1; 3]);

        let new = r#"{"ph": "X", "cat": "cpu_op", "name": "a\"b", "pid": 5, "tid": 6, "ts": 1.001, "dur": 0.002,
            "args": {"External id": 1, "External id": 2, "Process Group Name": "0", "dtype": ""}}"#;
        let event: Event<'_> = serde_json::from_str(new).expect("an event");
        assert_eq!(event.name.as_str(), "a\"b");
        assert_eq!(event.span_ns(), Some((1001, 1003)));
        assert_eq!(Args::text(event.args.group_name), Some(Text::Borrowed("0")));
        assert_eq!(Args::text(event.args.element_type), None);
    }

    #[test]
    fn what_is_missing_is_none() {
        let event: Event<'_> = serde_json::from_str(r#"{"args": "", "tid": null}"#).expect("an event");
        assert_eq!(event.thread, Id::None);
        assert_eq!(event.span_ns(), None);
        assert_eq!(event.category, Category::None);
    }
}
