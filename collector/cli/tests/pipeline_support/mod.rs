//! Logs of a pipeline training, written record by record from a small model of it, so that every wait in them is known.

#![allow(dead_code, reason = "each test uses its part")]

use crate::support::{START, SyntheticLog, call};
use rankscope_analysis::{MergeOptions, merge};
use rankscope_formats::session::Session;
use rankscope_ranklog::definition::{IdentitySource, KIND_COMMUNICATOR, Payload};
use rankscope_ranklog::record::{Record, RecordKind};
use rankscope_ranklog::{Library, Operation};
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

/// A log that is being written.
pub type Log = SyntheticLog<BufWriter<File>>;

/// One millisecond, in nanoseconds.
pub const MS: i64 = 1_000_000;
/// Communicator of the world in each log.
pub const WORLD: u32 = 0;
/// Communicator of the replicas of the stage.
const STAGE: u32 = 1;

/// A pipeline with one forward and one backward pass of each micro-batch (one forward, one backward in the steady
/// state).
///
/// Replicas reduce their gradients at the end of each step. Ranks are numbered through the stages first.
#[derive(Clone)]
pub struct Pipelined {
    /// Number of stages of each replica.
    pub stages: usize,
    /// Number of replicas of the model.
    pub replicas: usize,
    /// Number of micro-batches of a step.
    pub micro: usize,
    /// Number of steps.
    pub steps: usize,
    /// Duration of a micro-batch's forward pass on each stage, in nanoseconds. The backward pass takes twice as long.
    pub forward_ns: Vec<i64>,
    /// Additional time of a rank in each step before its first forward pass: replica, stage, nanoseconds.
    pub late: Option<(usize, usize, i64)>,
    /// Whether a barrier of all ranks ends each step.
    pub joins: bool,
    /// Whether replicas reduce gradients.
    pub reduces: bool,
}

impl Default for Pipelined {
    fn default() -> Self {
        Self {
            stages: 4,
            replicas: 2,
            micro: 8,
            steps: 40,
            forward_ns: vec![MS; 4],
            late: None,
            joins: false,
            reduces: true,
        }
    }
}

/// One item in the sequence of a stage's passes.
#[derive(Clone, Copy)]
enum Pass {
    Forward(usize),
    Backward(usize),
}

impl Pipelined {
    fn rank(&self, replica: usize, stage: usize) -> usize {
        replica * self.stages + stage
    }

    /// Returns the sequence: one forward, one backward, after as many forward passes as there are later stages.
    fn schedule(&self, stage: usize) -> Vec<Pass> {
        let warm_up = (self.stages - 1 - stage).min(self.micro);
        let mut passes: Vec<Pass> = (0..warm_up).map(Pass::Forward).collect();
        for batch in warm_up..self.micro {
            passes.push(Pass::Forward(batch));
            passes.push(Pass::Backward(batch - warm_up));
        }
        passes.extend((self.micro - warm_up..self.micro).map(Pass::Backward));
        passes
    }

    /// Writes the logs.
    pub fn write(&self, directory: &Path) {
        let size = (self.stages * self.replicas) as u32;
        let mut logs: Vec<Log> = (0..size)
            .map(|rank| SyntheticLog::create(directory, rank, size, "host-a").expect("create"))
            .collect();
        for (rank, log) in (0..).zip(&mut logs) {
            log.communicator(WORLD, rank, size, 7).expect("communicator");
            let (replica, stage) = (rank / self.stages as u32, rank % self.stages as u32);
            let payload = Payload::communicator(
                STAGE,
                Library::Gloo,
                IdentitySource::KeyAndBlob,
                replica,
                self.replicas as u32,
                [50 + stage as u8; 16],
                START + 10,
                u32::MAX,
                format!("{}/0", stage + 1).as_bytes(),
            );
            if self.reduces {
                log.definition(KIND_COMMUNICATOR, payload).expect("communicator");
            }
        }
        let mut now = vec![START as i64 + MS; size as usize];
        // A first barrier, so that the world's communicator has been used.
        self.together(
            &(0..size as usize).collect::<Vec<_>>(),
            WORLD,
            0,
            &mut now,
            &mut logs,
        );
        for step in 0..self.steps {
            for replica in 0..self.replicas {
                self.step(replica, &mut now, &mut logs);
            }
            if self.reduces {
                for stage in 0..self.stages {
                    let ranks: Vec<usize> = (0..self.replicas)
                        .map(|replica| self.rank(replica, stage))
                        .collect();
                    self.together(&ranks, STAGE, step as u32, &mut now, &mut logs);
                }
            }
            if self.joins {
                let all: Vec<usize> = (0..size as usize).collect();
                self.together(&all, WORLD, 1 + step as u32, &mut now, &mut logs);
            }
        }
        for log in logs {
            log.end().expect("end");
        }
    }

    /// Writes a collective of these ranks, in which each of them is blocked.
    fn together(&self, ranks: &[usize], communicator: u32, sequence: u32, now: &mut [i64], logs: &mut [Log]) {
        let last = ranks.iter().map(|&rank| now[rank]).max().unwrap_or(0);
        for &rank in ranks {
            let (operation, bytes) = match communicator {
                WORLD => (Operation::Barrier, 0),
                _ => (Operation::AllReduce, 1 << 16),
            };
            let mut record = call(operation, now[rank] as u64, (last + MS / 10) as u64, 0, bytes, 0);
            (record.communicator, record.sequence) = (communicator, sequence);
            logs[rank].push(0, record);
        }
        for &rank in ranks {
            now[rank] = last + MS / 10;
        }
    }

    /// Writes one replica's step. Events are in the order in which their data arrive.
    fn step(&self, replica: usize, now: &mut [i64], logs: &mut [Log]) {
        let schedules: Vec<Vec<Pass>> = (0..self.stages).map(|stage| self.schedule(stage)).collect();
        let mut at = vec![0; self.stages];
        // Times at which messages were sent, by receiving stage and micro-batch.
        let mut down = vec![vec![None; self.micro]; self.stages];
        let mut up = vec![vec![None; self.micro]; self.stages];
        if let Some((late, stage, ns)) = self.late
            && late == replica
        {
            now[self.rank(replica, stage)] += ns;
        }
        while (0..self.stages).any(|stage| at[stage] < schedules[stage].len()) {
            for stage in 0..self.stages {
                while let Some(&pass) = schedules[stage].get(at[stage]) {
                    let rank = self.rank(replica, stage);
                    let (needs, next, takes) = match pass {
                        Pass::Forward(batch) => (
                            (stage > 0).then(|| (stage - 1, down[stage][batch])),
                            (stage + 1 < self.stages).then_some(stage + 1),
                            self.forward_ns[stage],
                        ),
                        Pass::Backward(batch) => (
                            (stage + 1 < self.stages).then(|| (stage + 1, up[stage][batch])),
                            stage.checked_sub(1),
                            2 * self.forward_ns[stage],
                        ),
                    };
                    if let Some((from, sent)) = needs {
                        let Some(sent): Option<i64> = sent else { break };
                        let come = sent.max(now[rank]) + 1_000;
                        message(
                            &mut logs[rank],
                            Operation::Receive,
                            self.rank(replica, from),
                            now[rank],
                            come,
                        );
                        now[rank] = come;
                    }
                    now[rank] += takes;
                    if let Some(to) = next {
                        message(
                            &mut logs[rank],
                            Operation::Send,
                            self.rank(replica, to),
                            now[rank],
                            now[rank] + 500,
                        );
                        let (table, Pass::Forward(batch) | Pass::Backward(batch)) = match pass {
                            Pass::Forward(_) => (&mut down, pass),
                            Pass::Backward(_) => (&mut up, pass),
                        };
                        table[to][batch] = Some(now[rank]);
                        now[rank] += 500;
                    }
                    at[stage] += 1;
                }
            }
        }
    }
}

/// Writes one end of a message, posted and waited for at once.
fn message(log: &mut Log, operation: Operation, peer: usize, enter: i64, leave: i64) {
    let post = Record {
        operation: operation as u8,
        enter_ticks: enter as u64,
        leave_ticks: enter as u64,
        peer: peer as i32,
        bytes: 1 << 12,
        object: 77,
        communicator: WORLD,
        ..Record::new(RecordKind::Post)
    };
    log.push(0, post);
    let complete = Record {
        operation: operation as u8,
        enter_ticks: enter as u64,
        leave_ticks: leave as u64,
        peer: peer as i32,
        object: 77,
        communicator: WORLD,
        ..Record::new(RecordKind::Complete)
    };
    log.push(0, complete);
}

/// Writes and merges the job. The session is in the folder, next to the logs.
pub fn session_of(job: &Pipelined) -> (Session, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    job.write(folder.path());
    let options = MergeOptions {
        directories: vec![folder.path().to_path_buf()],
        output: folder.path().join("session"),
        threads: Some(2),
        most_pending: None,
    };
    let session = merge(&options, &mut |_| {}).expect("merge");
    (session, folder)
}
