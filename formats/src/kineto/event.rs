//! What one event says. Only what somebody asks for is kept; the rest is passed over without being copied.

use super::number::Microseconds;
use super::scan::{self, Broken};

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

impl<'a> Text<'a> {
    /// From a value as it stands in the file. What is no string is taken as it stands; what UTF-8 does not know is replaced.
    fn of(raw: &'a [u8]) -> Self {
        let inside = raw
            .strip_prefix(b"\"")
            .and_then(|rest| rest.strip_suffix(b"\""))
            .unwrap_or(raw);
        match std::str::from_utf8(inside) {
            Ok(text) if !inside.contains(&b'\\') => Self::Borrowed(text),
            Ok(text) => Self::Owned(serde_json::from_slice(raw).unwrap_or_else(|_| text.to_owned())),
            Err(_) => Self::Owned(String::from_utf8_lossy(inside).into_owned()),
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
    /// Time that CUPTI or the driver took for itself.
    Overhead,
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
            "overhead" => Self::Overhead,
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
    /// What else is told, as it stands in the file: most of an event, and looked into only where somebody asks.
    args: &'a [u8],
}

impl<'a> Event<'a> {
    /// Reads the event that begins at `start`, and tells where it ends.
    pub(super) fn read(data: &'a [u8], start: usize) -> Result<(Self, usize), Broken> {
        let mut event = Self::default();
        let end = scan::members(data, start, &mut |name, value| match name {
            b"ph" => event.phase = value.get(1).copied().unwrap_or(0),
            b"cat" => event.category = Category::of(Text::of(value).as_str()),
            b"name" => event.name = Text::of(value),
            b"pid" => event.process = id(value),
            b"tid" => event.thread = id(value),
            b"ts" => event.start = text(value).map(Microseconds),
            b"dur" => event.duration = text(value).map(Microseconds),
            b"args" => event.args = value,
            _ => {}
        })?;
        Ok((event, end))
    }

    /// Begin and end, ns since the trace's base; `None` if it is no span, or has no times that make sense.
    pub fn span_ns(&self) -> Option<(i64, i64)> {
        let start = self.start?.ns()?;
        let end = start.checked_add(self.duration?.ns()?.max(0))?;
        (self.phase == b'X').then_some((start, end))
    }

    /// What else it tells; nothing if that is damaged.
    pub fn args(&self) -> Args<'a> {
        Args::of(self.args)
    }

    /// True if its arguments may hold this key: a look that costs a fraction of [`Self::args`].
    pub fn may_tell(&self, key: &str) -> bool {
        memchr::memmem::find(self.args, key.as_bytes()).is_some()
    }
}

macro_rules! args {
    ($($(#[$doc:meta])* $field:ident : $key:literal;)*) => {
        /// Those `args` that mean something to an import, as they stand in the file: numbers, lists, strings in quotes.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Args<'a> {
            $($(#[$doc])* pub $field: Option<&'a str>,)*
        }

        impl<'a> Args<'a> {
            /// From an object. A key that comes twice is no error to Kineto: the last one counts, as for other readers.
            fn of(raw: &'a [u8]) -> Self {
                let mut args = Self::default();
                // Old versions write `"args": ""`.
                if raw.first() == Some(&b'{') {
                    let read = scan::members(raw, 0, &mut |name, value| {
                        $(if name == $key.as_bytes() {
                            args.$field = text(value);
                        })*
                    });
                    if read.is_err() {
                        return Self::default();
                    }
                }
                args
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
        let text = Text::of(raw?.as_bytes());
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

fn text(raw: &[u8]) -> Option<&str> {
    std::str::from_utf8(raw).ok()
}

fn id(raw: &[u8]) -> Id<'_> {
    let Some(raw) = text(raw) else {
        return Id::None;
    };
    match integer(raw) {
        Some(number) => Id::Number(number),
        None if raw == "null" => Id::None,
        None => Id::Word(raw.trim_matches('"')),
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
        let (event, end) = Event::read(old.as_bytes(), 0).expect("an event");
        assert_eq!(end, old.len());
        let args = event.args();
        assert_eq!(event.category, Category::Kernel);
        assert_eq!(event.thread, Id::Word("stream 7"));
        assert_eq!(event.span_ns(), Some((12_000, 15_000)));
        assert_eq!(Args::integer(args.stream), Some(7));
        assert_eq!(Args::dimensions(args.grid), [1, 2, 3]);
        assert_eq!(Args::dimensions(args.block), [1; 3]);

        let new = r#"{"ph": "X", "cat": "cpu_op", "name": "a\"b", "pid": 5, "tid": 6, "ts": 1.001, "dur": 0.002,
            "args": {"External id": 1, "External id": 2, "Process Group Name": "0", "dtype": ""}}"#;
        let (event, _) = Event::read(new.as_bytes(), 0).expect("an event");
        let args = event.args();
        assert!(event.may_tell("dtype") && !event.may_tell("correlation"));
        assert_eq!(event.name.as_str(), "a\"b");
        assert_eq!(event.span_ns(), Some((1001, 1003)));
        assert_eq!(Args::text(args.group_name), Some(Text::Borrowed("0")));
        assert_eq!(Args::text(args.element_type), None);
    }

    #[test]
    fn what_the_profiler_took_has_a_category_of_its_own() {
        let overhead =
            br#"{"ph": "X", "cat": "overhead", "name": "Activity Buffer Request", "pid": -1, "tid": 6,
            "ts": 1, "dur": 2, "args": {}}"#;
        let (event, _) = Event::read(overhead, 0).expect("an event");
        assert_eq!(
            (event.category, event.process),
            (Category::Overhead, Id::Number(-1))
        );
        assert!(!event.category.is_work());
    }

    #[test]
    fn what_is_missing_is_none() {
        let (event, _) = Event::read(br#"{"args": "", "tid": null}"#, 0).expect("an event");
        assert_eq!(event.thread, Id::None);
        assert_eq!(event.span_ns(), None);
        assert_eq!(event.category, Category::None);
    }
}
