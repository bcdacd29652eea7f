//! Reader of the status of NCCL's RAS subsystem, as `ncclras` prints it: JSON (NCCL 2.28 and newer), or the text of any
//! version.
//!
//! The format is known from `src/ras/client_support.cc` of NCCL 2.30 and the chapter "RAS" of NCCL's user guide. RAS
//! knows no operations, only how many of each kind every rank has started.

use crate::problem::{Problem, is_json_object};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;

/// Maximum number of lines of a block. Further lines are only counted.
const MAX_LINES: usize = 64;
/// Maximum number of blocks. Further blocks are only counted.
const MAX_BLOCKS: usize = 1 << 10;

/// Rank that answered.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct Rank {
    /// Number in the communicator.
    pub rank: u32,
    /// Address of the host.
    #[serde(default)]
    pub host: String,
    /// Process id; −1 if unknown.
    #[serde(default)]
    pub pid: i64,
    /// State of the communicator on this rank.
    #[serde(default)]
    pub status: Status,
    /// Number of collectives that were started, by NCCL's name of the operation.
    #[serde(default)]
    pub collective_counts: BTreeMap<String, u64>,
}

/// State of a communicator on a rank.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct Status {
    /// NCCL's result code of the initialisation: 0 is success, 7 is in progress.
    #[serde(default)]
    pub init_state: i64,
    /// NCCL's result code of asynchronous errors.
    #[serde(default)]
    pub async_error: i64,
}

/// Rank that did not answer.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct Missing {
    /// Number in the communicator.
    pub rank: u32,
    /// Address of the host.
    #[serde(default)]
    pub host: String,
    /// Process id; −1 if unknown.
    #[serde(default)]
    pub pid: i64,
    /// What RAS knows of its process.
    #[serde(default)]
    pub status: MissingStatus,
}

/// What RAS knows of the process of a missing rank.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct MissingStatus {
    /// True if the process did not answer. Otherwise it answered, and is no longer in the communicator.
    #[serde(default)]
    pub unresponsive: bool,
    /// True if RAS considers the process dead.
    #[serde(default)]
    pub considered_dead: bool,
}

/// Communicator.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct Communicator {
    /// NCCL's hash: `0x27a079b828ff1a75`.
    pub hash: String,
    /// Number of members.
    pub size: u32,
    /// Ranks that answered.
    #[serde(default)]
    pub ranks: Vec<Rank>,
    /// Ranks that did not answer.
    #[serde(default)]
    pub missing_ranks: Vec<Missing>,
}

/// Error or warning of the text: a heading and the lines below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Heading: `#0-0 (27a079b828ff1a75) MISMATCH`.
    pub heading: String,
    /// Lines below it.
    pub lines: Vec<String>,
    /// Number of lines beyond the kept ones.
    pub more_lines: usize,
}

/// Status of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RasStatus {
    /// Communicators, from JSON.
    pub communicators: Vec<Communicator>,
    /// Errors and warnings, from text.
    pub blocks: Vec<Block>,
    /// True if the file is a status, with or without errors.
    pub is_status: bool,
    /// Parts that could not be read.
    pub problems: Vec<Problem>,
}

/// Reads a status. Its first byte decides whether it is JSON or text. Damage ends a status in JSON; what precedes it is
/// kept.
pub fn read(bytes: &[u8]) -> RasStatus {
    let mut status = RasStatus::default();
    if !is_json_object(bytes) {
        read_text(bytes, &mut status);
        return status;
    }
    let mut source = serde_json::Deserializer::from_slice(bytes);
    let outcome = source
        .deserialize_map(Members(&mut status))
        .and_then(|()| source.end());
    if let Err(error) = outcome {
        let kept = format!("{} communicators", status.communicators.len());
        status.problems.push(Problem::in_json(bytes, &error, &kept));
    }
    status
}

/// Reads the sections "Errors" and "Warnings" of the text. In a block, all lines but the heading are indented.
fn read_text(bytes: &[u8], status: &mut RasStatus) {
    let text = String::from_utf8_lossy(bytes);
    let mut is_inside = false;
    let mut more_blocks = 0;
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let is_underlined = lines.peek().is_some_and(|next| next.starts_with("====="));
        status.is_status |= line.starts_with("NCCL version ") || line.starts_with("Communicators...");
        if is_underlined {
            is_inside = matches!(line.trim(), "Errors" | "Warnings");
            lines.next();
        } else if !is_inside || line.trim().is_empty() {
        } else if !line.starts_with(' ') {
            if status.blocks.len() < MAX_BLOCKS {
                status.blocks.push(Block {
                    heading: line.trim().to_owned(),
                    ..Block::default()
                });
            } else {
                more_blocks += 1;
            }
        } else if more_blocks > 0 {
            // A line of a block that is only counted.
        } else if let Some(block) = status.blocks.last_mut() {
            if block.lines.len() < MAX_LINES {
                block.lines.push(line.trim().to_owned());
            } else {
                block.more_lines += 1;
            }
        }
    }
    if more_blocks > 0 {
        status.problems.push(Problem {
            offset: bytes.len() as u64,
            what: format!("{more_blocks} errors and warnings beyond the first {MAX_BLOCKS} were left out"),
        });
    }
}

struct Members<'s>(&'s mut RasStatus);

impl<'de> Visitor<'de> for Members<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object with the member communicators")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<String>()? {
            match name.as_str() {
                "communicators" => {
                    self.0.is_status = true;
                    members.next_value_seed(Communicators(self.0))?;
                }
                _ => {
                    members.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

struct Communicators<'s>(&'s mut RasStatus);

impl<'de> DeserializeSeed<'de> for Communicators<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        source.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Communicators<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of communicators")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut communicators: A) -> Result<(), A::Error> {
        while let Some(communicator) = communicators.next_element()? {
            self.0.communicators.push(communicator);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{
  "nccl_version": "2.28.3", "timestamp": "2026-11-25 15:00:00", "communicators_count": 1,
  "communicators": [
    { "hash": "0x27a0", "secondary_hash": "0x1:0x2", "size": 3, "ranks_count": 2, "missing_ranks_count": 1,
      "ranks": [
        { "rank": 0, "host": "10.0.0.1", "pid": 10, "cuda_dev": 0, "nvml_dev": 0,
          "status": { "init_state": 0, "async_error": 0, "finalize_called": false, "destroy_flag": false, "abort_flag": false },
          "collective_counts": { "Broadcast": 1, "AllReduce": 7 } },
        { "rank": 1, "host": "10.0.0.1", "pid": 11, "collective_counts": { "Broadcast": 1, "AllReduce": 6 } } ],
      "missing_ranks": [ { "rank": 2, "host": "10.0.0.2", "pid": 12, "status": { "unresponsive": true, "considered_dead": false } } ] } ],
  "ras": { "collection_time_sec": 0.001, "timeouts_count": 0 } }"#;

    const TEXT: &str = "NCCL version 2.24.3 compiled with CUDA 12.5\n\nCommunicators... (0.00s)\n=============\n\n\
        Group     Comms\n    0         8\n\nErrors\n======\n\n#0-0 (27a079b828ff1a75) INCOMPLETE\n  \
        Missing communicator data on 1 rank\n  Rank 29 -- GPU 5 managed by process 3487984 on node 172.16.64.213\n\n\
        Warnings\n========\n\n";

    #[test]
    fn a_status_is_read_from_json_and_from_text() {
        let status = read(JSON.as_bytes());
        assert_eq!(status.problems, []);
        let communicator = &status.communicators[0];
        assert_eq!(communicator.ranks[1].collective_counts["AllReduce"], 6);
        assert!(communicator.missing_ranks[0].status.unresponsive);
        let status = read(TEXT.as_bytes());
        assert!(status.is_status);
        assert_eq!(status.blocks.len(), 1);
        assert_eq!(status.blocks[0].lines.len(), 2);
    }

    /// Answers of NCCL 2.30.7 itself, in which rank 0 lags on one of two communicators.
    #[test]
    fn real_answers_are_read() {
        let status = read(include_bytes!("../../tests/fixtures/ras/real.json"));
        assert_eq!((status.communicators.len(), status.problems.len()), (2, 0));
        let counts = status.communicators[1]
            .ranks
            .iter()
            .map(|rank| rank.collective_counts["AllReduce"]);
        assert_eq!(counts.collect::<Vec<_>>(), [0, 1, 1]);
        let status = read(include_bytes!("../../tests/fixtures/ras/real.txt"));
        assert_eq!(status.blocks[0].heading, "#0-0 (2714c3d1ff67b9dd) MISMATCH");
        assert_eq!((status.blocks.len(), status.blocks[0].lines.len()), (1, 3));
    }

    #[test]
    fn blocks_and_lines_beyond_the_maximum_are_counted() {
        let block = format!("#0 (1) MISMATCH\n{}", "  a line\n".repeat(MAX_LINES + 3));
        let text = format!("Errors\n======\n{}", block.repeat(MAX_BLOCKS + 2));
        let status = read(text.as_bytes());
        assert_eq!(
            (status.blocks.len(), status.blocks[MAX_BLOCKS - 1].more_lines),
            (MAX_BLOCKS, 3)
        );
        assert!(
            status.problems[0].what.starts_with("2 errors"),
            "{:?}",
            status.problems
        );
    }

    #[test]
    fn text_after_the_document_is_a_problem() {
        let status = read(format!("{JSON}\nmore").as_bytes());
        assert_eq!((status.communicators.len(), status.problems.len()), (1, 1));
    }

    #[test]
    fn a_status_that_was_cut_off_keeps_whole_communicators() {
        let end = JSON.find("\"ras\"").expect("the footer");
        let status = read(&JSON.as_bytes()[..end]);
        assert_eq!((status.communicators.len(), status.problems.len()), (1, 1));
        assert!(!read(b"{}").is_status);
    }
}
