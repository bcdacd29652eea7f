//! `rankscope selftest`.
//!
//! | module | content |
//! |---|---|
//! | [`outcome`] | the result of a part, and its printed form |
//! | [`recording`] | runs a program of a part, recorded, and merges it |
//! | [`machine`] | what this machine has: devices, libraries |
//! | [`parts`] | the parts: what each runs and demands |
//! | [`operations`] | recorded operations against those that a bench has run |
//! | [`device`] | recorded device work against the truth |
//! | [`end`] | how a program ends |
//! | [`program`] | the programs themselves, in their own process |
//! | [`bundle`] | the file for an issue |

mod bundle;
mod device;
mod end;
mod machine;
mod operations;
mod outcome;
mod parts;
mod program;
mod recording;

use super::{Exit, print};
use crate::launch::ending::Ending;
use crate::launch::library;
use crate::launch::stop::StopWatch;
use anyhow::{Context, Result, bail};
use clap::Args;
use machine::Machine;
use outcome::{Document, Verdict};
use rankscope_ranklog::place;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  rankscope selftest                                  check this machine, in one to two minutes
  rankscope selftest --parts kernels,price            run these parts only
  rankscope selftest --bundle selftest.tar.gz         write a file to attach to an issue
  rankscope selftest --library /opt/nccl/libnccl.so.2 with another NCCL";

/// Check on this machine that recordings are true: run programs that know what they do, record them, and compare.
///
/// It needs only the libraries that it checks: NCCL, CUPTI, Gloo. With a GPU it checks NCCL's calls, the times of its plugin
/// and of events, and CUPTI. The test kernels store their own start and end. Without a GPU it checks Gloo only, and says so. The
/// exit status is 1 if a part failed, and 3 if no part could run.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub struct Selftest {
    /// Directory for the recordings, new or empty (default: a temporary one, which is removed).
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Parts to run (default: all that can run here).
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parts::named)]
    parts: Vec<&'static str>,

    /// File of NCCL (default: the one that python3, LD_LIBRARY_PATH or the system provides).
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,

    /// Write results, recordings and versions into this file (.tar.gz). It contains the name of this host, the paths of the
    /// libraries, and the variables that steer communication.
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,

    /// Print the results as JSON.
    #[arg(long)]
    json: bool,

    /// Print the JSON schema of the results.
    #[arg(long)]
    schema: bool,

    /// Program of a part, in a process that this command started.
    #[command(flatten)]
    program: program::Program,
}

impl Selftest {
    pub fn run(self) -> Result<Exit> {
        if self.schema {
            print::json(&schemars::schema_for!(Document))?;
            return Ok(Exit::Fine);
        }
        if self.program.role.is_some() {
            return self.program.run();
        }
        let library = library::find()?;
        let temporary = match self.output {
            Some(_) => None,
            None => Some(tempfile::Builder::new().prefix("rankscope-selftest-").tempdir()?),
        };
        let unneeded = temporary.as_ref().map(|temporary| temporary.path().to_path_buf());
        let directory = self.output.clone().or_else(|| unneeded.clone());
        let directory = std::path::absolute(directory.context("no directory")?)?;
        if fs::read_dir(&directory).is_ok_and(|mut entries| entries.next().is_some()) {
            bail!(
                "{} is not empty; name a new directory with -o",
                directory.display()
            );
        }
        place::make_run_directory(&directory)
            .with_context(|| format!("cannot create {}", directory.display()))?;
        let _watch = StopWatch::start(move |signal| {
            recording::abandon();
            if let Some(unneeded) = &unneeded {
                let _ = fs::remove_dir_all(unneeded);
            }
            Ending::Signal(signal).end_likewise()
        });
        let machine = Machine::find(self.library.as_deref());
        let mut document = Document::new(&machine);
        if !self.json {
            print::text(&document.heading())?;
        }
        let show_progress = !self.json && io::stderr().is_terminal();
        for part in parts::ALL {
            if !self.parts.is_empty() && !self.parts.contains(&part.name) {
                continue;
            }
            if show_progress {
                eprint!("  … {}\r", part.title);
                let _ = io::stderr().flush();
            }
            let result = part.run(&machine, &library, &directory.join(part.name));
            if show_progress {
                eprint!("\x1b[2K\r");
            }
            if !self.json {
                print::text(&result.line())?;
            }
            document.parts.push(result);
        }
        if self.json {
            print::json(&document)?;
        } else {
            print::text(&document.conclusion())?;
        }
        if let Some(bundle) = &self.bundle {
            bundle::write(bundle, &document, &directory)?;
            if !self.json {
                print::text(&format!("Wrote {}\n", bundle.display()))?;
            }
        }
        Ok(exit(&document))
    }
}

fn exit(document: &Document) -> Exit {
    let has = |verdict| document.parts.iter().any(|part| part.verdict == verdict);
    if has(Verdict::Failed) {
        Exit::Regression
    } else if has(Verdict::Passed) || has(Verdict::Measured) {
        Exit::Fine
    } else {
        Exit::Inconclusive
    }
}
