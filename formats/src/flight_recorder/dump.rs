//! Content of a dump of PyTorch's Flight Recorder.

use super::document;
use super::pickle;
use super::pickled::{Pickled, Visits};
use crate::problem::{Problem, is_json_object};

/// How far an operation got, as far as the process knew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// The dump has another word, or none.
    #[default]
    Unknown,
    /// The operation is on its stream, and was not seen to run.
    Scheduled,
    /// The operation was seen to run, and was not seen to end.
    Started,
    /// The operation was seen to have ended.
    Completed,
}

/// Line of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Name of the function.
    pub function: String,
    /// Path of its file.
    pub file: String,
    /// Number of the line.
    pub line: u64,
}

/// Operation of a process group on this rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Number of the operation among all that were recorded, from 0.
    pub record: Option<u64>,
    /// Name of the process group, which is equal on all members.
    pub group: Option<String>,
    /// Description of the process group from the program, or `undefined`.
    pub group_description: Option<String>,
    /// Number of the collective in its process group. Operations that start together have the same.
    pub collective: Option<u64>,
    /// Number of the message, or of the batch of messages, in its process group on this rank.
    pub message: Option<u64>,
    /// True for sends, receives and batches of them.
    pub is_message: bool,
    /// Library and operation: `nccl:all_reduce`, `nccl:send 0->1`.
    pub name: String,
    /// Time at which the operation was requested, in nanoseconds since 1970.
    pub created_ns: Option<i64>,
    /// Time at which the watchdog thread found that it ran, in nanoseconds since 1970. It is later than the start.
    pub found_started_ns: Option<i64>,
    /// Time at which the watchdog thread found that it had ended, in nanoseconds since 1970. It is later than the end.
    pub found_completed_ns: Option<i64>,
    /// Number of elements of all inputs.
    pub input_elements: Option<u64>,
    /// Number of elements of all outputs.
    pub output_elements: Option<u64>,
    /// Element type of the inputs, in PyTorch's words: `Float`.
    pub input_type: Option<String>,
    /// Element type of the outputs.
    pub output_type: Option<String>,
    /// How far the operation got.
    pub state: State,
    /// True if the process no longer watches the operation: it ended, or it timed out.
    pub is_retired: bool,
    /// Innermost line of the program that requested the operation. JSON dumps have none.
    pub caller: Option<Frame>,
}

/// Process group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessGroup {
    /// Name, which is equal on all members.
    pub name: String,
    /// Description from the program, or `undefined`.
    pub description: String,
    /// Global ranks of the members, in order.
    pub ranks: Vec<u32>,
}

/// Dump of one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    /// Version of the format.
    pub version: Option<String>,
    /// Version of the communication library.
    pub library_version: Option<String>,
    /// Process groups.
    pub groups: Vec<ProcessGroup>,
    /// Operations in the order of their requests. They are the last ones: the recorder overwrites the oldest.
    pub entries: Vec<Entry>,
    /// True if the dump has a list of operations, empty or not.
    pub has_entries: bool,
    /// Parts that could not be read.
    pub problems: Vec<Problem>,
}

impl Dump {
    /// Returns true if a file is a dump: JSON dumps without operations have no list of them.
    pub fn is_dump(&self) -> bool {
        self.has_entries || (self.version.is_some() && !self.groups.is_empty())
    }
}

/// Reads a dump: a pickle or JSON. The first byte decides this, not the name of the file. No code of a pickle is run.
///
/// Damage ends the dump. It is listed in [`Dump::problems`], and what precedes it is kept.
pub fn read(bytes: &[u8]) -> Dump {
    let mut dump = Dump::default();
    if is_json_object(bytes) {
        let mut source = serde_json::Deserializer::from_slice(bytes);
        let outcome = document::collect(&mut source, &mut dump).and_then(|()| source.end());
        if let Err(error) = outcome {
            let kept = format!("{} operations", dump.entries.len());
            dump.problems.push(Problem::in_json(bytes, &error, &kept));
        }
        return dump;
    }
    let pickle = pickle::decode(bytes);
    let visits = Visits::of(bytes.len());
    let outcome = document::collect(Pickled::top(&pickle, &visits), &mut dump);
    let kept = dump.entries.len();
    // Damage of the pickle also explains what the dump lacks.
    let damage = pickle.damage.or_else(|| {
        outcome.err().map(|error| Problem {
            offset: 0,
            what: error.to_string(),
        })
    });
    if let Some(mut damage) = damage {
        damage.what += &format!("; {kept} operations before were kept");
        dump.problems.push(damage);
    }
    dump
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{"entries":[
      {"collective_seq_id":7,"input_dtypes":["Float"],"input_sizes":[[2,3]],"is_p2p":false,"op_id":9,
       "output_dtypes":["Float"],"output_sizes":[[2,3]],"p2p_seq_id":1,"pg_id":0,"process_group":["0","default_pg"],
       "profiling_name":"nccl:all_reduce","record_id":12,"retired":false,"state":"started","time_created_ns":1000,
       "time_discovered_completed_ns":0,"time_discovered_started_ns":2000,"timeout_ms":600000}],
      "pg_config":{"0":{"desc":"default_pg","name":"0","ranks":"[0, 1]"}},"version":"2.5"}"#;

    #[test]
    fn a_json_dump_is_read() {
        let dump = read(JSON.as_bytes());
        assert_eq!(dump.problems, []);
        assert_eq!(dump.version.as_deref(), Some("2.5"));
        assert_eq!(dump.groups[0].ranks, [0, 1]);
        let entry = &dump.entries[0];
        assert_eq!((entry.collective, entry.input_elements), (Some(7), Some(6)));
        assert_eq!((entry.state, entry.group.as_deref()), (State::Started, Some("0")));
        assert_eq!(
            (entry.found_started_ns, entry.found_completed_ns),
            (Some(2000), None)
        );
    }

    #[test]
    fn a_dump_that_was_cut_off_keeps_what_it_has() {
        for end in 0..JSON.len() {
            let dump = read(&JSON.as_bytes()[..end]);
            assert_eq!(dump.problems.len(), 1, "at {end}");
            assert!(dump.problems[0].offset <= end as u64);
        }
        let cut = read(&JSON.as_bytes()[..JSON.len() - 17]);
        assert_eq!((cut.entries.len(), cut.groups.len()), (1, 1));
    }

    /// A list that names one long text many times would be a thousand times as large as the file.
    #[test]
    fn a_text_that_is_named_often_is_not_copied_each_time() {
        let mut bytes = b"\x80\x02}X\x07\0\0\0entries](}X\x0b\0\0\0input_sizes](X".to_vec();
        bytes.extend((1u32 << 16).to_le_bytes());
        bytes.extend([b'a'; 1 << 16]);
        bytes.extend(b"q\0");
        bytes.extend(b"h\0".repeat(1 << 15));
        bytes.extend(b"eses.");
        let dump = read(&bytes);
        assert!(
            dump.problems[0].what.contains("more often"),
            "{:?}",
            dump.problems
        );
    }

    #[test]
    fn a_file_that_is_no_dump_is_none() {
        for bytes in [&b""[..], b"{}", b"[]", b"\x80\x02N.", b"\x80\x02}.", b"text"] {
            assert!(!read(bytes).is_dump(), "{bytes:?}");
        }
    }
}
