//! Traces of torch.profiler, written event by event.

use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Start of the job's first step, in microseconds.
pub const BEGIN: i64 = 1_000_000;
/// Number of steps, of 1 ms each.
pub const STEPS: i64 = 6;

/// Makes a complete event.
pub fn span(category: &str, name: &str, (pid, tid): (i64, i64), ts: f64, dur: f64, args: Value) -> Value {
    json!({"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args})
}

/// One rank of a job of two. Each step has a kernel of 100 µs (250 µs on rank 1), and then an all-reduce of 4 MB. The
/// all-reduce kernel starts when its rank is ready and ends on both ranks 500 µs into the step.
pub struct Rank {
    pub number: i64,
    pub events: Vec<Value>,
    correlation: i64,
}

impl Rank {
    pub fn new(number: i64) -> Self {
        Self {
            number,
            events: Vec::new(),
            correlation: 10,
        }
    }

    pub fn at(&self) -> (i64, i64) {
        (4000 + self.number, 4000 + self.number)
    }

    pub fn launched(&mut self, name: &str, launch: f64, stream: i64, ts: f64, dur: f64) {
        self.correlation += 1;
        let correlation = self.correlation;
        let host = json!({"cbid": 211, "correlation": correlation});
        self.events.push(span(
            "cuda_runtime",
            "cudaLaunchKernel",
            self.at(),
            launch,
            2.0,
            host,
        ));
        let device = json!({"device": self.number, "context": 1, "stream": stream, "correlation": correlation,
            "grid": [8, 1, 1], "block": [512, 1, 1]});
        self.events
            .push(span("kernel", name, (self.number, stream), ts, dur, device));
    }

    pub fn all_reduce(&mut self, begin: f64, ts: f64, end: f64) {
        let metadata = json!({"Collective name": "allreduce", "dtype": "Float", "In msg nelems": 1_000_000,
            "Out msg nelems": 1_000_000, "Group size": 2, "Process Group Name": "0", "Process Group Ranks": "[0, 1]"});
        self.events.push(span(
            "cpu_op",
            "record_param_comms",
            self.at(),
            begin,
            20.0,
            metadata,
        ));
        self.events.push(span(
            "user_annotation",
            "nccl:all_reduce",
            self.at(),
            begin + 2.0,
            16.0,
            json!({}),
        ));
        self.launched(
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)",
            begin + 5.0,
            20,
            ts,
            end - ts,
        );
    }

    pub fn step(&mut self, number: i64) {
        let compute = if self.number == 1 { 250.0 } else { 100.0 };
        self.step_at(number, (BEGIN + 1000 * (number - 1)) as f64, compute, 1000.0);
    }

    /// Adds a step with a kernel of `compute` µs. Its all-reduce ends half of the step's duration after the start.
    pub fn step_at(&mut self, number: i64, begin: f64, compute: f64, duration: f64) {
        let name = format!("ProfilerStep#{number}");
        self.events.push(span(
            "user_annotation",
            &name,
            self.at(),
            begin,
            duration,
            json!({}),
        ));
        self.launched("gemm", begin + 10.0, 7, begin + 100.0, compute);
        self.all_reduce(begin + 50.0, begin + 100.0 + compute, begin + duration / 2.0);
    }

    pub fn trace(&self, host: Option<&str>) -> Value {
        let window = span(
            "Trace",
            "PyTorch Profiler (0)",
            (0, 0),
            (BEGIN - 500) as f64,
            (1000 * STEPS + 1000) as f64,
            json!({}),
        );
        let mut events = vec![window];
        events.extend(self.events.iter().cloned());
        let mut trace = json!({
            "schemaVersion": 1,
            "distributedInfo": {"backend": "nccl", "rank": self.number, "world_size": 2, "nccl_version": "2.21.5",
                "pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": 2, "ranks": [0, 1]}]},
            "traceEvents": events,
            "baseTimeNanoseconds": 1_700_000_000_000_000_000i64,
        });
        if let Some(host) = host {
            trace["host_name"] = host.into();
        }
        trace
    }
}

/// Writes the traces of both ranks. `extra` operations happen on rank 0 before the first step and before rank 1
/// recorded.
pub fn write(directory: &Path, host: Option<&str>, extra: i64) -> Vec<PathBuf> {
    (0..2)
        .map(|number| {
            let mut rank = Rank::new(number);
            if number == 0 {
                for at in 0..extra {
                    let begin = (BEGIN - 400 + 100 * at) as f64;
                    rank.all_reduce(begin, begin + 30.0, begin + 60.0);
                }
            }
            for step in 1..=STEPS {
                rank.step(step);
            }
            let path = directory.join(format!("rank{number}.json"));
            fs::write(&path, rank.trace(host).to_string()).expect("written");
            path
        })
        .collect()
}
