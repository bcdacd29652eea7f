//! Decoding of one event. Only members that an import uses are kept; all others are skipped without a copy.

use super::number::Microseconds;
use super::scan::{self, Broken};

/// String that is borrowed from the file unless it contains an escape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text<'a> {
    /// String as in the file.
    Borrowed(&'a str),
    /// String with its escapes resolved.
    Owned(String),
}

impl Text<'_> {
    /// Returns the string.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Owned(text) => text,
        }
    }
}

impl<'a> Text<'a> {
    /// Creates a text from a value as in the file. A value that is not a string is taken unchanged. Invalid UTF-8 is
    /// replaced.
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

/// Process or thread: a number, or a word for rows that Kineto adds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Id<'a> {
    /// The event has no ID.
    #[default]
    None,
    /// System ID. For a device's event: the ordinal of the device, or the number of the stream.
    Number(i64),
    /// Word such as `Spans`, `Traces` or `stream 7`, without quotes. Escapes are not resolved.
    Word(&'a str),
}

/// Category of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Category {
    /// Operator of PyTorch on a host thread.
    Operator,
    /// Range of the program, of PyTorch, or of its process groups, on a host thread.
    Annotation,
    /// Call into the CUDA runtime library.
    Runtime,
    /// Call into the driver.
    Driver,
    /// Kernel.
    Kernel,
    /// Memory copy.
    Copy,
    /// Memory set.
    Set,
    /// Time that CUPTI or the driver used for itself.
    Overhead,
    /// Interval in which the profiler itself recorded.
    Trace,
    /// No category is given.
    #[default]
    None,
    /// Other category.
    Other,
}

impl Category {
    /// Maps a name to its category. Names changed in 2022, and both sets are known.
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

    /// Returns true for device work.
    pub fn is_work(self) -> bool {
        matches!(self, Self::Kernel | Self::Copy | Self::Set)
    }
}

/// Trace event.
#[derive(Clone, Debug, Default)]
pub struct Event<'a> {
    /// Phase: `X` for a span, `i` for an instant, `M` for a name, `s` and `f` for the ends of an arrow; 0 if not given.
    pub phase: u8,
    /// Category of the event.
    pub category: Category,
    /// Category as in the file.
    category_name: &'a [u8],
    /// Name of the event.
    pub name: Text<'a>,
    /// Process or device.
    pub process: Id<'a>,
    /// Thread or stream.
    pub thread: Id<'a>,
    /// Start, relative to the base of the trace.
    pub start: Option<Microseconds<'a>>,
    /// Length.
    pub duration: Option<Microseconds<'a>>,
    /// Arguments as in the file. They are most of an event, and are parsed only on request.
    args: &'a [u8],
}

impl<'a> Event<'a> {
    /// Decodes the event that starts at `start`, and returns it with its end.
    pub(super) fn read(data: &'a [u8], start: usize) -> Result<(Self, usize), Broken> {
        let mut event = Self::default();
        let end = scan::members(data, start, &mut |name, value| match name {
            b"ph" => event.phase = value.get(1).copied().unwrap_or(0),
            b"cat" => {
                event.category = Category::of(Text::of(value).as_str());
                event.category_name = value;
            }
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

    /// Returns start and end in nanoseconds since the base of the trace. `None` if the event is not a span or has no
    /// valid times.
    pub fn span_ns(&self) -> Option<(i64, i64)> {
        let start = self.start?.ns()?;
        let end = start.checked_add(self.duration?.ns()?.max(0))?;
        (self.phase == b'X').then_some((start, end))
    }

    /// Parses the arguments; returns empty ones if they are damaged.
    pub fn args(&self) -> Args<'a> {
        Args::of(self.args)
    }

    /// Returns the name of the category, for a trace of another program.
    pub fn category_name(&self) -> Text<'a> {
        Text::of(self.category_name)
    }

    /// Returns the arguments as in the file, for a trace of another program. They may be damaged.
    pub fn raw_args(&self) -> &'a [u8] {
        self.args
    }

    /// Returns true if the arguments may contain this key. The check costs a fraction of [`Self::args`].
    pub fn may_tell(&self, key: &str) -> bool {
        memchr::memmem::find(self.args, key.as_bytes()).is_some()
    }
}

macro_rules! args {
    ($($(#[$doc:meta])* $field:ident : $key:literal;)*) => {
        /// The `args` that an import uses, as in the file: numbers, lists, strings with quotes.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Args<'a> {
            $($(#[$doc])* pub $field: Option<&'a str>,)*
        }

        impl<'a> Args<'a> {
            /// Parses the arguments from an object. Kineto allows a key to occur twice; the last one counts, as in
            /// other readers.
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
    /// Correlation ID, which links a call of the host with the work that it launched.
    correlation: "correlation";
    /// Number of the stream in its context.
    stream: "stream";
    /// Ordinal of the device.
    device: "device";
    /// Number of the context.
    context: "context";
    /// Number of bytes that were copied or set.
    bytes: "bytes";
    /// Blocks of the grid, a list of three numbers.
    grid: "grid";
    /// Threads of a block, a list of three numbers.
    block: "block";
    /// CUPTI's number of the called function.
    function: "cbid";
    /// Name of the collective of a process group.
    collective: "Collective name";
    /// Number of elements that this rank sent.
    elements_in: "In msg nelems";
    /// Number of elements that this rank received.
    elements_out: "Out msg nelems";
    /// Number of elements to each member, as a list in a string; empty for equal parts.
    split_in: "In split size";
    /// Number of elements from each member.
    split_out: "Out split size";
    /// PyTorch's name of the element type.
    element_type: "dtype";
    /// Number of members of the process group.
    group_size: "Group size";
    /// Name of the process group, the same on all members.
    group_name: "Process Group Name";
    /// Global ranks of the members, as a list in a string. A long list has dots in the middle.
    group_ranks: "Process Group Ranks";
    /// Sequence number of the operation in the process group.
    sequence: "Seq";
    /// Global rank that sends the message.
    source_rank: "Src Rank";
    /// Global rank that receives the message.
    destination_rank: "Dst Rank";
    /// Shapes of the inputs, a list of lists.
    input_dimensions: "Input Dims";
    /// Types of the inputs, a list of strings.
    input_types: "Input type";
    /// Values of the inputs that are not tensors, a list of strings.
    inputs: "Concrete Inputs";
    /// Name of a process or thread, in an event of phase `M`.
    name: "name";
}

/// Parses a value as an integer. Strings in quotes, and numbers whose fraction is 0, are accepted.
pub(super) fn integer(raw: &str) -> Option<i64> {
    let text = raw.trim_matches('"').trim();
    text.parse().ok().or_else(|| {
        let value: f64 = text.parse().ok()?;
        (value.fract() == 0.0 && value.abs() < 9e15).then_some(value as i64)
    })
}

impl<'a> Args<'a> {
    /// Parses a value as an integer.
    pub fn integer(raw: Option<&str>) -> Option<i64> {
        integer(raw?)
    }

    /// Parses a value as a string without quotes and with its escapes resolved; `None` also for an empty one.
    pub fn text(raw: Option<&'a str>) -> Option<Text<'a>> {
        let text = Text::of(raw?.as_bytes());
        (!text.as_str().is_empty()).then_some(text)
    }

    /// Parses three numbers. A missing or invalid number becomes 1.
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
    fn overhead_of_the_profiler_has_its_own_category() {
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
    fn missing_fields_are_none() {
        let (event, _) = Event::read(br#"{"args": "", "tid": null}"#, 0).expect("an event");
        assert_eq!(event.thread, Id::None);
        assert_eq!(event.span_ns(), None);
        assert_eq!(event.category, Category::None);
    }
}
