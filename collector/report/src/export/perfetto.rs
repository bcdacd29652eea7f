//! Export of a session as a Perfetto trace.
//!
//! Each rank is a process. Its tracks are:
//! - one track per thread, with library calls and blocked intervals;
//! - one group of lanes per communicator, which shows concurrent operations;
//! - lanes of messages, and the steps;
//! - counters of operations in flight and lost records, and those of the program;
//! - spans of the program that several threads entered;
//! - the streams of its devices.
//!
//! A flow joins the calls of one instance. Another flow joins a launch and the works that it launched.

pub use super::options::{DEFAULT_MAX_BYTES, ExportError, Exported, PerfettoOptions};

use super::rank::RankExport;
use super::trace_axis::TRACE_START_NS;
use rankscope_formats::perfetto::{ClockAnchor, Options, TraceWriter};
use rankscope_formats::session::{InstanceRow, Rank, RowGroups, Session, part_path};
use rankscope_formats::whole_file::WholeFile;
use std::path::Path;

/// Writes a session directory with the summary `session` as a trace. `progress` receives a share from 0 to 1.
pub fn export(
    directory: &Path,
    session: &Session,
    options: &PerfettoOptions,
    progress: &mut dyn FnMut(f64),
) -> Result<Exported, ExportError> {
    let output_error = |source| ExportError::Output {
        path: options.output.clone(),
        source,
    };
    let trace_error = |source| ExportError::Trace {
        path: options.output.clone(),
        source,
    };
    let anchor = ClockAnchor {
        trace_ns: TRACE_START_NS,
        realtime_ns: u64::try_from(session.axis.origin_unix_ns.saturating_add(session.axis.start_ns))
            .unwrap_or(0),
    };
    let file = WholeFile::create(&options.output).map_err(output_error)?;
    let mut writer = TraceWriter::new(file, anchor, Options::default()).map_err(trace_error)?;
    let about = [
        ("rankscope.version", session.tool.version.as_str()),
        ("rankscope.axis", session.axis.method.name()),
    ];
    writer.attributes(&about).map_err(trace_error)?;
    for (host, known) in session.hosts.iter().enumerate() {
        let name = if known.name.is_empty() {
            "host"
        } else {
            known.name.as_str()
        };
        writer.host(host as u32, name).map_err(trace_error)?;
    }
    let instances = RowGroups::open(&part_path::<InstanceRow>(directory))?;
    let ranks: Vec<&Rank> = session
        .ranks
        .iter()
        .filter(|rank| {
            options
                .ranks
                .as_ref()
                .is_none_or(|ranks| ranks.contains(&rank.index))
        })
        .collect();
    let mut exported = Exported {
        ranks: ranks.len() as u32,
        ..Exported::default()
    };
    for (done, rank) in ranks.iter().enumerate() {
        progress(done as f64 / ranks.len() as f64);
        let before = writer.written().bytes;
        let share = options.max_bytes.saturating_sub(before) / (ranks.len() - done) as u64;
        let of_rank =
            RankExport::new(&mut writer, session, rank, options, before + share).map_err(trace_error)?;
        let of_rank = of_rank.run(directory, &instances)?;
        exported.add(of_rank);
    }
    let (file, written) = writer.finish().map_err(trace_error)?;
    file.finish().map_err(output_error)?;
    progress(1.0);
    exported.written = written;
    Ok(exported)
}
