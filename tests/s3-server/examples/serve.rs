//! Serves a directory by S3 until standard input ends, for benchmarks and trials by hand.
//!
//! `serve ROOT BUCKET [LATENCY_MS]` prints the environment variables of clients, one per line. For each line on standard input, it
//! prints the counters since the last one, and after the line `list` also the requests.

use rankscope_s3_server::S3Server;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::time::Duration;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [root, bucket, rest @ ..] = &arguments[..] else {
        return Err(io::Error::other("usage: serve ROOT BUCKET [LATENCY_MS]"));
    };
    let server = S3Server::start(Path::new(root));
    server.bucket(bucket);
    if let Some(milliseconds) = rest.first().and_then(|text| text.parse().ok()) {
        server.set_latency(Duration::from_millis(milliseconds));
    }
    let mut out = io::stdout();
    for (name, value) in server.environment() {
        writeln!(out, "export {name}={value}")?;
    }
    writeln!(out)?;
    out.flush()?;
    for line in io::stdin().lock().lines() {
        if line? == "list" {
            for request in server.requests() {
                let range = request.range.unwrap_or_default();
                writeln!(
                    out,
                    "{} {} {} {range}",
                    request.method, request.path, request.query
                )?;
            }
        }
        let counters = server.counters();
        writeln!(
            out,
            "requests {} received {} sent {}",
            counters.total(),
            counters.bytes_received,
            counters.bytes_sent
        )?;
        out.flush()?;
        server.reset_counters();
    }
    Ok(())
}
