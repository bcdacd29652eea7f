//! Records of a trace, with the lanes, texts and streams that they refer to by number.

use super::spool::Spool;
use rankscope_ranklog::definition::Stream;
use rankscope_ranklog::record::{Record, RecordKind};
use rustc_hash::FxHashMap;
use std::io;
use std::path::PathBuf;

/// Lane of device activity and of the calls that launched it. Threads of the program have the following lanes.
pub const DEVICE_LANE: u32 = 0;

/// Number of the first text. In every log the texts of device activity start here, because the table of names in a
/// session has no others.
pub const FIRST_TEXT: u32 = 1 << 16;

/// Records, except operations of process groups.
pub struct Records {
    /// The records by lane.
    pub spool: Spool,
    /// Texts of records, by number.
    pub texts: Vec<String>,
    /// Streams of records, by number.
    pub streams: Vec<Stream>,
    /// Threads of the program by lane; lane 0 has none.
    pub threads: Vec<(u32, Option<String>)>,
    lanes: FxHashMap<u32, u32>,
    text_numbers: FxHashMap<Box<str>, u32>,
    stream_numbers: FxHashMap<(u32, u32, u32), u32>,
}

impl Records {
    /// Creates an empty list. Records that do not fit in memory go to files in `directory`.
    pub fn new(directory: PathBuf) -> Self {
        Self {
            spool: Spool::new(directory),
            texts: Vec::new(),
            streams: Vec::new(),
            threads: vec![(0, None)],
            lanes: FxHashMap::default(),
            text_numbers: FxHashMap::default(),
            stream_numbers: FxHashMap::default(),
        }
    }

    /// Returns the lane of a thread of the program.
    pub fn lane_for(&mut self, thread: u32) -> u32 {
        let next = self.threads.len() as u32;
        let lane = *self.lanes.entry(thread).or_insert(next);
        if lane == next {
            self.threads.push((thread, None));
        }
        lane
    }

    /// Returns the number of a text.
    pub fn text(&mut self, text: &str) -> u32 {
        if let Some(&number) = self.text_numbers.get(text) {
            return number;
        }
        let number = FIRST_TEXT + self.texts.len() as u32;
        self.texts.push(text.to_owned());
        self.text_numbers.insert(text.into(), number);
        number
    }

    /// Returns the number of a stream, from its device, its context and its number there.
    pub fn stream(&mut self, key: (u32, u32, u32)) -> u32 {
        let next = self.streams.len() as u32;
        let index = *self.stream_numbers.entry(key).or_insert(next);
        if index == next {
            self.streams.push(Stream {
                index,
                device: key.0,
                context: key.1,
                number: key.2,
            });
        }
        index
    }

    /// Adds a range of the program. A number at the end of its name is separated from the text, because programs count.
    pub fn mark(&mut self, thread: u32, name: &str, start: i64, end: i64) -> io::Result<()> {
        let lane = self.lane_for(thread);
        let counted = name
            .rsplit_once('#')
            .and_then(|(what, number)| Some((&name[..=what.len()], number.parse::<u32>().ok()?)));
        let (text, number) = match counted {
            Some((text, number)) => (text, Some(number)),
            None => (name, None),
        };
        let record = Record {
            enter_ticks: start as u64,
            leave_ticks: end as u64,
            object: u64::from(self.text(text)),
            tag: u32::from(number.is_some()),
            sequence: number.unwrap_or(0),
            ..Record::new(RecordKind::Mark)
        };
        self.spool.push(lane, record)
    }
}
