//! Reader for a report of Nsight Systems, exported as SQLite: `nsys export --type sqlite`. One report contains all
//! profiled processes of a host.
//!
//! Source: the schema in the files themselves (`nsys` 2022.2 to 2024.5), NVIDIA's "SQLite Export Schema Reference", and
//! NCCL's ranges in the NVTX domain `NCCL`.

use super::records::DEVICE_LANE;
use super::trace::{Call, LaunchGroup, Progress, Trace};
use crate::torch_names;
use rankscope_ranklog::Library;
use rankscope_ranklog::activity::{Activity, HostCall, Work};
use rankscope_ranklog::communication_kernel::is_communication;
use rankscope_ranklog::cuda_calls::CUDA_FUNCTIONS;
use rusqlite::{Connection, OpenFlags, Row, params};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// `eventType` of ranges: push/pop and start/end, and the same types in domains since 2021.
const RANGES: &str = "(59, 60, 70, 71)";
/// `eventType` of a domain's name.
const DOMAIN: i64 = 75;
/// `eventType` of a thread's name.
const THREAD_NAME: i64 = 39;
/// Width of the process and thread numbers in a serialised id, in bits.
const ID_BITS: u32 = 24;

/// Error that makes a report unreadable.
#[derive(Debug, thiserror::Error)]
pub enum NsysError {
    /// The file is not a database, or cannot be opened.
    #[error("{path}: {source}; export a report with: nsys export --type sqlite FILE.nsys-rep")]
    Database {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the error.
        source: rusqlite::Error,
    },
    /// The database is not from Nsight Systems.
    #[error("{0} has no table StringIds: it is not a report of Nsight Systems exported as SQLite")]
    Foreign(PathBuf),
    /// The report has no data of CUDA or NCCL.
    #[error(
        "{0} has neither device activity nor ranges of NCCL: profile with nsys profile --trace=cuda,nvtx"
    )]
    Empty(PathBuf),
    /// Records could not be written to temporary files.
    #[error("{path}: {source}")]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the error.
        source: io::Error,
    },
}

/// Range of NCCL on a thread.
struct NcclRange {
    start_ns: i64,
    end_ns: i64,
    name: String,
}

/// State while a report is read.
struct Reading<'a> {
    path: &'a Path,
    directory: &'a Path,
    database: Connection,
    /// Traces by process.
    traces: BTreeMap<u32, Trace>,
    /// Texts by their number in the report.
    texts: FxHashMap<i64, String>,
    nccl: BTreeMap<(u32, u32), Vec<NcclRange>>,
    problems: Vec<String>,
}

/// Reads a report: one trace per process that used a device or NCCL.
///
/// # Errors
///
/// If the file is not such a report. Tables that cannot be read to their end are problems of the traces.
pub fn read(path: &Path, directory: &Path) -> Result<Vec<Trace>, NsysError> {
    let failed = |source| NsysError::Database {
        path: path.to_path_buf(),
        source,
    };
    let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(failed)?;
    let mut reading = Reading {
        path,
        directory,
        database,
        traces: BTreeMap::new(),
        texts: FxHashMap::default(),
        nccl: BTreeMap::new(),
        problems: Vec::new(),
    };
    if reading.columns("StringIds").map_err(failed)?.is_empty() {
        return Err(NsysError::Foreign(path.to_path_buf()));
    }
    let io = |source| NsysError::Io {
        path: path.to_path_buf(),
        source,
    };
    reading.kernels().map_err(io)?;
    reading.copies().map_err(io)?;
    reading.host_calls().map_err(io)?;
    reading.ranges().map_err(io)?;
    reading.calls();
    reading.describe();
    let mut traces: Vec<Trace> = reading
        .traces
        .into_values()
        .filter(|trace| trace.devices.works > 0 || !trace.calls.is_empty())
        .collect();
    if traces.is_empty() {
        return Err(NsysError::Empty(path.to_path_buf()));
    }
    // Ranks of a host use its devices in order, whatever the order of their processes.
    traces.sort_by_key(|trace| {
        (
            trace
                .records
                .streams
                .iter()
                .map(|stream| stream.device)
                .min()
                .unwrap_or(u32::MAX),
            trace.process.id,
        )
    });
    for trace in &mut traces {
        trace.events = trace.devices.works;
    }
    if let Some(first) = traces.first_mut() {
        for what in reading.problems {
            first.problem(None, what);
        }
    }
    Ok(traces)
}

fn process_of(id: i64) -> u32 {
    (id >> ID_BITS) as u32 & ((1 << ID_BITS) - 1)
}

fn thread_of(id: i64) -> u32 {
    id as u32 & ((1 << ID_BITS) - 1)
}

impl Reading<'_> {
    /// Returns the names of a table's columns; empty if the table does not exist.
    fn columns(&self, table: &str) -> rusqlite::Result<Vec<String>> {
        let mut query = self.database.prepare("SELECT name FROM pragma_table_info(?1)")?;
        let names = query.query_map(params![table], |row| row.get(0))?;
        names.collect()
    }

    /// Reads the named columns of a table. Missing columns are null. A row that cannot be read ends the table, and is
    /// reported.
    fn rows(
        &mut self,
        table: &str,
        requested: &[&str],
        condition: &str,
        visit: &mut dyn FnMut(&mut Self, &Row<'_>) -> rusqlite::Result<io::Result<()>>,
    ) -> io::Result<()> {
        let columns = match self.columns(table) {
            Ok(columns) if columns.is_empty() => return Ok(()),
            Ok(columns) => columns,
            Err(error) => {
                self.problem(table, 0, &error);
                return Ok(());
            }
        };
        let chosen: Vec<String> = requested
            .iter()
            .map(|name| {
                if columns.iter().any(|column| column == name) {
                    format!("\"{name}\"")
                } else {
                    "NULL".to_owned()
                }
            })
            .collect();
        let text = format!("SELECT {} FROM {table} {condition}", chosen.join(", "));
        // The statement borrows the connection, but the callback needs the rest of `self`.
        let database = std::mem::replace(
            &mut self.database,
            match Connection::open_in_memory() {
                Ok(empty) => empty,
                Err(error) => {
                    self.problem(table, 0, &error);
                    return Ok(());
                }
            },
        );
        let (mut read, mut failed) = (0u64, Ok(()));
        let outcome = (|| -> rusqlite::Result<()> {
            let mut query = database.prepare(&text)?;
            let mut rows = query.query([])?;
            while let Some(row) = rows.next()? {
                failed = visit(self, row)?;
                if failed.is_err() {
                    return Ok(());
                }
                read += 1;
            }
            Ok(())
        })();
        self.database = database;
        if let Err(error) = outcome {
            self.problem(table, read, &error);
        }
        failed
    }

    fn problem(&mut self, table: &str, read: u64, error: &rusqlite::Error) {
        self.problems.push(format!(
            "table {table} could be read only in part: {error}; {read} earlier rows were kept"
        ));
    }

    fn trace(&mut self, process: u32) -> &mut Trace {
        let (path, directory) = (self.path, self.directory);
        self.traces.entry(process).or_insert_with(|| {
            let mut trace = Trace::new("nsys", path, directory);
            trace.process.id = process;
            trace
        })
    }

    /// Reads all texts. Everywhere else, names of kernels, functions and ranges are numbers.
    fn learn_texts(&mut self) -> io::Result<()> {
        if !self.texts.is_empty() {
            return Ok(());
        }
        self.rows("StringIds", &["id", "value"], "", &mut |reading, row| {
            reading.texts.insert(row.get(0)?, row.get(1)?);
            Ok(Ok(()))
        })
    }

    fn kernels(&mut self) -> io::Result<()> {
        self.learn_texts()?;
        let columns = [
            "start",
            "end",
            "deviceId",
            "contextId",
            "streamId",
            "correlationId",
            "globalPid",
            "demangledName",
            "gridX",
            "gridY",
            "gridZ",
            "blockX",
            "blockY",
            "blockZ",
            "graphNodeId",
        ];
        self.rows("CUPTI_ACTIVITY_KIND_KERNEL", &columns, "", &mut |reading, row| {
            let name: Option<i64> = row.get(7)?;
            let name = name
                .and_then(|id| reading.texts.get(&id))
                .cloned()
                .unwrap_or_default();
            let size = |first: usize| -> rusqlite::Result<[u32; 3]> {
                let mut out = [1; 3];
                for (place, at) in out.iter_mut().zip(first..) {
                    *place = row.get::<_, Option<u32>>(at)?.unwrap_or(1);
                }
                Ok(out)
            };
            let (grid, block) = (size(8)?, size(11)?);
            let (trace, mut work) = reading.work(row)?;
            work.graph_node = row.get::<_, Option<i64>>(14)?.unwrap_or(0) as u64;
            if is_communication(name.as_bytes()) {
                trace.devices.communication.insert(work.correlation);
            }
            let kernel = Activity::Kernel {
                work,
                name: trace.records.text(&name) as i32,
                grid,
                block,
                graph: 0,
            };
            Ok(trace.records.spool.push(DEVICE_LANE, kernel.to_record()))
        })
    }

    fn copies(&mut self) -> io::Result<()> {
        let columns = [
            "start",
            "end",
            "deviceId",
            "contextId",
            "streamId",
            "correlationId",
            "globalPid",
            "bytes",
            "copyKind",
        ];
        self.rows("CUPTI_ACTIVITY_KIND_MEMCPY", &columns, "", &mut |reading, row| {
            let bytes = row.get::<_, Option<i64>>(7)?.unwrap_or(0) as u64;
            // The numbers are those of CUPTI.
            let direction = row.get::<_, Option<u8>>(8)?.unwrap_or(0);
            let (trace, work) = reading.work(row)?;
            let copy = Activity::Copy {
                work,
                bytes,
                direction,
                peer_device: -1,
            };
            Ok(trace.records.spool.push(DEVICE_LANE, copy.to_record()))
        })?;
        self.rows(
            "CUPTI_ACTIVITY_KIND_MEMSET",
            &columns[..8],
            "",
            &mut |reading, row| {
                let bytes = row.get::<_, Option<i64>>(7)?.unwrap_or(0) as u64;
                let (trace, work) = reading.work(row)?;
                Ok(trace
                    .records
                    .spool
                    .push(DEVICE_LANE, Activity::Set { work, bytes }.to_record()))
            },
        )
    }

    /// Reads a work. Start, end, device, context, stream, correlation and process are the first columns of every table
    /// of works.
    fn work(&mut self, row: &Row<'_>) -> rusqlite::Result<(&mut Trace, Work)> {
        let (start, end): (i64, i64) = (row.get(0)?, row.get(1)?);
        let number = |at: usize| row.get::<_, Option<u32>>(at).map(Option::unwrap_or_default);
        let stream = (number(2)?, number(3)?, number(4)?);
        let correlation = row.get::<_, Option<i64>>(5)?.unwrap_or(0) as u32;
        let process = row.get::<_, Option<i64>>(6)?.map_or(0, process_of);
        let trace = self.trace(process);
        trace.times.extend_span(start, end.max(start));
        trace.devices.works += 1;
        let work = Work {
            start_ticks: start as u64,
            end_ticks: end.max(start) as u64,
            stream: trace.records.stream(stream),
            correlation,
            graph_node: 0,
        };
        Ok((trace, work))
    }

    fn host_calls(&mut self) -> io::Result<()> {
        let functions: FxHashMap<(&str, bool), usize> = CUDA_FUNCTIONS
            .iter()
            .enumerate()
            .rev()
            .map(|(position, function)| ((function.name, function.is_runtime), position))
            .collect();
        let columns = [
            "start",
            "end",
            "globalTid",
            "correlationId",
            "nameId",
            "returnValue",
        ];
        self.rows(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            &columns,
            "",
            &mut |reading, row| {
                let name: Option<i64> = row.get(4)?;
                let known = name.and_then(|id| reading.texts.get(&id)).and_then(|name| {
                    // Example: `cudaLaunchKernel_ptsz_v7000`
                    let plain = name.split("_v").next().unwrap_or(name);
                    let plain = plain.trim_end_matches("_ptsz").trim_end_matches("_ptds");
                    functions.get(&(plain, plain.starts_with("cuda")))
                });
                let Some(&position) = known else {
                    return Ok(Ok(()));
                };
                let function = &CUDA_FUNCTIONS[position];
                let (start, end): (i64, i64) = (row.get(0)?, row.get(1)?);
                let id = row.get::<_, Option<i64>>(2)?.unwrap_or(0);
                let call = HostCall {
                    start_ticks: start as u64,
                    end_ticks: end.max(start) as u64,
                    thread: thread_of(id),
                    correlation: row.get::<_, Option<i64>>(3)?.unwrap_or(0) as u32,
                    function: function.number,
                    is_runtime: function.is_runtime,
                    has_failed: row.get::<_, Option<i64>>(5)?.unwrap_or(0) != 0,
                };
                let trace = reading.trace(process_of(id));
                trace.times.extend_span(start, end.max(start));
                let activity = Activity::Call {
                    call,
                    waits: function.waits,
                };
                Ok(trace.records.spool.push(DEVICE_LANE, activity.to_record()))
            },
        )
    }

    /// Reads ranges. NCCL's ranges are its operations; all others belong to the program.
    fn ranges(&mut self) -> io::Result<()> {
        let named = format!("WHERE eventType = {THREAD_NAME}");
        self.rows(
            "NVTX_EVENTS",
            &["text", "textId", "globalTid"],
            &named,
            &mut |reading, row| {
                // Nsight Systems' tracing of MPI names the calling thread.
                let name = reading.range_name(row, 0)?;
                let rank = name
                    .as_deref()
                    .and_then(|name| name.strip_prefix("MPI Rank ")?.parse().ok());
                let process = row.get::<_, Option<i64>>(2)?.map_or(0, process_of);
                if let (Some(rank), Some(trace)) = (rank, reading.traces.get_mut(&process)) {
                    trace.process.rank = Some(rank);
                }
                Ok(Ok(()))
            },
        )?;
        let mut nccl_domains: Vec<(u32, i64)> = Vec::new();
        let columns = ["text", "textId", "globalTid", "domainId"];
        self.rows(
            "NVTX_EVENTS",
            &columns,
            &format!("WHERE eventType = {DOMAIN}"),
            &mut |reading, row| {
                if reading.range_name(row, 0)?.as_deref() == Some("NCCL") {
                    let process = row.get::<_, Option<i64>>(2)?.map_or(0, process_of);
                    nccl_domains.push((process, row.get::<_, Option<i64>>(3)?.unwrap_or(0)));
                }
                Ok(Ok(()))
            },
        )?;
        let columns = ["text", "textId", "globalTid", "domainId", "start", "end"];
        let condition = format!("WHERE eventType IN {RANGES} AND \"end\" IS NOT NULL");
        self.rows("NVTX_EVENTS", &columns, &condition, &mut |reading, row| {
            let Some(name) = reading.range_name(row, 0)? else {
                return Ok(Ok(()));
            };
            let id = row.get::<_, Option<i64>>(2)?.unwrap_or(0);
            let (process, thread) = (process_of(id), thread_of(id));
            let domain = row.get::<_, Option<i64>>(3)?.unwrap_or(0);
            let (start, end): (i64, i64) = (row.get(4)?, row.get(5)?);
            let end = end.max(start);
            if nccl_domains.contains(&(process, domain)) && name.starts_with("nccl") {
                reading
                    .nccl
                    .entry((process, thread))
                    .or_default()
                    .push(NcclRange {
                        start_ns: start,
                        end_ns: end,
                        name,
                    });
                return Ok(Ok(()));
            }
            let trace = reading.trace(process);
            trace.times.extend_span(start, end);
            Ok(trace.records.mark(thread, &name, start, end))
        })
    }

    fn range_name(&self, row: &Row<'_>, first: usize) -> rusqlite::Result<Option<String>> {
        let text: Option<String> = row.get(first)?;
        let id: Option<i64> = row.get(first + 1)?;
        Ok(text.or_else(|| self.texts.get(&id?).cloned()))
    }

    /// Converts NCCL's ranges to calls and groups. Calls in a group are launched when the outermost group ends.
    fn calls(&mut self) {
        for ((process, thread), mut ranges) in std::mem::take(&mut self.nccl) {
            ranges.sort_by_key(|range| (range.start_ns, std::cmp::Reverse(range.end_ns)));
            let trace = self.trace(process);
            let (mut depth, mut begun, mut in_group) = (0u32, 0i64, 0u32);
            let mut until = i64::MIN;
            for range in ranges {
                match range.name.as_str() {
                    "ncclGroupStart" => {
                        if depth == 0 {
                            (begun, in_group) = (range.start_ns, 0);
                        }
                        depth += 1;
                    }
                    "ncclGroupEnd" => {
                        depth = depth.saturating_sub(1);
                        if depth == 0 && in_group > 0 {
                            trace.launch_groups.push(LaunchGroup {
                                thread,
                                begun_ns: begun,
                                end: (range.start_ns, range.end_ns),
                                calls: in_group,
                            });
                            in_group = 0;
                        }
                    }
                    name => {
                        let plain = name.trim_start_matches("nccl").to_lowercase();
                        // NCCL calls itself. Only the outermost range counts.
                        let is_inner = range.end_ns <= until;
                        if let Some(operation) = torch_names::operation(&plain).filter(|_| !is_inner) {
                            until = range.end_ns;
                            in_group += u32::from(depth > 0);
                            trace.times.extend_span(range.start_ns, range.end_ns);
                            trace.calls.push(Call {
                                thread,
                                start_ns: range.start_ns,
                                end_ns: range.end_ns,
                                issue: None,
                                library: Library::Nccl,
                                operation,
                                group: None,
                                group_size: None,
                                launch_group: if depth > 0 {
                                    trace.launch_groups.len() as u32 + 1
                                } else {
                                    0
                                },
                                elements: (None, None),
                                split: Vec::new(),
                                element_bytes: None,
                                peer: None,
                                peer_rank: None,
                                sequence: None,
                                progress: Progress::Unknown,
                                bytes: None,
                            });
                        }
                    }
                }
            }
            if depth > 0 {
                // The report ends inside a group, so its launch is not recorded.
                let open = trace.launch_groups.len() as u32 + 1;
                for call in trace.calls.iter_mut().filter(|call| call.launch_group == open) {
                    call.launch_group = 0;
                }
            }
            trace.calls.sort_by_key(|call| call.start_ns);
        }
    }

    /// Reads the models of the devices of each process. Older reports do not have them.
    fn device_models(&mut self) {
        let Ok(mut query) = self.database.prepare(
            "SELECT device.pid, device.cudaId, gpu.name FROM TARGET_INFO_CUDA_DEVICE AS device \
             JOIN TARGET_INFO_GPU AS gpu ON gpu.id = device.gpuId",
        ) else {
            return;
        };
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
        for (process, device, model) in rows.into_iter().flatten().flatten() {
            if let Some(trace) = self.traces.get_mut(&process) {
                trace.process.device_models.insert(device, model);
            }
        }
    }

    /// Reads the data of the host and the processes.
    fn describe(&mut self) {
        let one = |sql: &str| -> Option<String> {
            let value: rusqlite::types::Value = self.database.query_row(sql, [], |row| row.get(0)).ok()?;
            match value {
                rusqlite::types::Value::Integer(number) => Some(number.to_string()),
                rusqlite::types::Value::Text(text) => Some(text),
                _ => None,
            }
        };
        let host = one("SELECT value FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'Hostname'");
        let base: i64 = one("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME")
            .and_then(|text| text.parse().ok())
            .unwrap_or(0);
        let names: Vec<(u32, String)> = self
            .traces
            .keys()
            .filter_map(|&process| {
                let sql = format!("SELECT name FROM PROCESSES WHERE pid = {process}");
                Some((process, one(&sql)?))
            })
            .collect();
        self.device_models();
        for trace in self.traces.values_mut() {
            // Processes of one report share one clock, whatever the name of their host.
            trace.process.host = host.clone().or_else(|| Some(super::shown(self.path)));
            trace.times.base_ns = base;
            trace.process.name = names
                .iter()
                .find(|(process, _)| *process == trace.process.id)
                .map(|(_, name)| name.clone());
        }
    }
}
