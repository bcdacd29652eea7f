//! Prints rank logs as text, for inspection and for tests. Usage: `dump_log FILE…`

use rankscope_ranklog::Operation;
use rankscope_ranklog::reader::RankLog;
use rankscope_ranklog::record::RecordKind;
use std::path::Path;

fn main() {
    for path in std::env::args().skip(1) {
        let log = match RankLog::open(Path::new(&path)) {
            Ok(log) => log,
            Err(error) => {
                eprintln!("{error}");
                std::process::exit(2);
            }
        };
        println!(
            "{path}: {} bytes, {:?}, {}",
            log.segment_bytes,
            log.ending,
            log.counter.name()
        );
        for (key, value) in &log.properties {
            println!("  {key} = {value}");
        }
        for communicator in log.communicators.values() {
            println!("  {communicator:?}");
        }
        for loss in &log.losses {
            println!("  lost: {loss:?}");
        }
        let (records, threads, problems) = log.all_records();
        for problem in log.problems.iter().chain(&problems) {
            println!("  problem: {problem}");
        }
        println!("  {} records", records.len());
        let start = records.first().map_or(0, |first| first.record.enter_ticks);
        for held in &records {
            let r = &held.record;
            println!(
                "{:>12} +{:<10} {:<20} {:<12} {:<14} comm {} tag {} seq {} bytes {} peer {} object {:#x} aux {:#x} flags {}",
                r.enter_ticks.wrapping_sub(start) as i64,
                r.leave_ticks.wrapping_sub(r.enter_ticks),
                format!(
                    "{}/{}",
                    threads[held.thread as usize].id, threads[held.thread as usize].name
                ),
                RecordKind::from_u8(r.kind).map_or("?", RecordKind::name),
                Operation::from_u8(r.operation).map_or("-", Operation::name),
                r.communicator as i32,
                r.tag,
                r.sequence,
                r.bytes,
                r.peer,
                r.object,
                r.aux,
                r.flags,
            );
        }
    }
}
