//! Commands of the command line, one module each.

mod arguments;
mod baseline;
mod bench;
mod cluster;
mod companion;
mod compare;
mod completions;
mod ctl;
mod doctor;
mod dump;
mod duration;
mod exit;
mod export;
mod flight;
mod heatmap;
mod import;
mod kernels;
mod merge;
mod merge_periods;
mod notify;
mod parallel_requests;
mod print;
mod progress;
mod rank_list;
mod reference;
mod report;
mod report_periods;
mod results;
mod rules;
mod run;
mod sample_gpus;
mod selftest;
mod serve;
mod session;
mod size;
mod sql;
mod staged;
mod staged_periods;
mod status;
mod timeline_picture;
mod top;
mod version;
mod view;
mod watch;
mod worst_steps;

pub use arguments::{prepared, refuse_url};
pub use compare::with_sides;
pub use exit::Exit;
pub use print::{error as print_error, is_broken_pipe};

use anyhow::Result;
use clap::{Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  rankscope run -- torchrun --nproc-per-node 8 train.py   record a job, merge, print the summary
  rankscope run -o shared/run1 -- python train.py         record into a directory of your choice
  rankscope report shared/run1                            print the summary again, write report.html
  rankscope status shared/run1                            what does every rank do now, and who is missing
  rankscope watch shared/run1                             report when a running job hangs
  rankscope rules                                         list all findings, with their conditions
  rankscope export --perfetto shared/run1 --ranks 0-3     write a trace for ui.perfetto.dev
  rankscope import kineto log/                            import traces of torch.profiler as a run
  rankscope compare base/ -- new/                         check whether a change made it worse
  rankscope view shared/run1                              open a window with the timeline of all ranks
  rankscope top shared/run1                               watch a running job
  rankscope serve shared/run1                             offer metrics of a running job to Prometheus
  rankscope dump shared/run1                              write what a job with --flight has in memory
  rankscope heatmap shared/run1                           draw waits, traffic between ranks, and bandwidth
  rankscope baseline add shared/run1                      store a summary for later comparisons
  rankscope doctor -- torchrun train.py                   check whether this command can be recorded
  rankscope bench                                         measure the communication library of this machine
  rankscope selftest                                      check that recordings on this machine are true";

const WITHOUT_THE_LAUNCHER: &str = "\
Record without the launcher:
  LD_PRELOAD=/path/to/librankscope.so RANKSCOPE_DIR=/shared/run1 python train.py
  rankscope merge /shared/run1

On several nodes, start `rankscope run -o DIR` once per node with one shared DIR. The last node to finish merges. \
Or forward LD_PRELOAD and RANKSCOPE_DIR to all ranks (mpirun -x, srun --export, a container's environment) and merge \
afterwards.

Exit status: 0 success (for `run`: the status of the job), 1 a declared limit was exceeded, 2 wrong usage or \
unreadable input, 3 inconclusive.

Environment:
  RANKSCOPE_LIBRARY    the librankscope.so to preload, instead of the one next to this program
  RANKSCOPE_BASELINES  the store of `rankscope baseline`: a directory, or git:BRANCH
  RANKSCOPE_LOG        rankscope's own log on standard error, for example debug
  NO_COLOR             no colours";

/// Show what a distributed training job really does: communication of every rank, waits between ranks, and their cost.
#[derive(Debug, Parser)]
#[command(name = "rankscope", version, long_version = version::LONG.as_str(), propagate_version = true, after_help = EXAMPLES)]
#[command(after_long_help = format!("{EXAMPLES}\n\n{WITHOUT_THE_LAUNCHER}"))]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Run),
    Merge(merge::Merge),
    Report(report::Report),
    Export(export::Export),
    Import(import::Import),
    Heatmap(heatmap::Heatmap),
    Baseline(baseline::Baseline),
    Compare(compare::Compare),
    Sql(sql::Sql),
    Scheduler(cluster::Scheduler),
    Executor(cluster::Executor),
    View(view::View),
    Top(top::Top),
    Rules(rules::Rules),
    Status(status::Status),
    Watch(watch::Watch),
    Serve(serve::Serve),
    Dump(dump::Dump),
    Ctl(ctl::Ctl),
    Doctor(doctor::Doctor),
    Bench(Box<bench::Bench>),
    Selftest(Box<selftest::Selftest>),
    Completions(completions::Completions),
    #[command(hide = true)]
    Reference(reference::Reference),
    #[command(hide = true)]
    SampleGpus(sample_gpus::SampleGpus),
}

impl Cli {
    /// Runs the chosen command.
    pub fn run(self) -> Result<Exit> {
        match self.command {
            Command::Run(run) => run.run(),
            Command::Merge(merge) => merge.run(),
            Command::Report(report) => report.run(),
            Command::Export(export) => export.run(),
            Command::Import(import) => import.run(),
            Command::Heatmap(heatmap) => heatmap.run(),
            Command::Baseline(baseline) => baseline.run(),
            Command::Compare(compare) => compare.run(),
            Command::Sql(sql) => sql.run(),
            Command::Scheduler(scheduler) => scheduler.run(),
            Command::Executor(executor) => executor.run(),
            Command::View(view) => view.run(),
            Command::Top(top) => top.run(),
            Command::Rules(rules) => rules.run(),
            Command::Status(status) => status.run(),
            Command::Watch(watch) => watch.run(),
            Command::Serve(serve) => serve.run(),
            Command::Dump(dump) => dump.run(),
            Command::Ctl(ctl) => ctl.run(),
            Command::Doctor(doctor) => doctor.run(),
            Command::Bench(bench) => bench.run(),
            Command::Selftest(selftest) => selftest.run(),
            Command::Completions(completions) => completions.run(),
            Command::Reference(reference) => reference.run(),
            Command::SampleGpus(sample) => sample.run(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_command_keeps_its_own_options() {
        for line in [
            vec![
                "rankscope",
                "run",
                "-o",
                "d",
                "--",
                "python",
                "-m",
                "train",
                "-o",
                "x",
            ],
            vec!["rankscope", "run", "-o", "d", "python", "-m", "train", "-o", "x"],
        ] {
            let Command::Run(run) = Cli::try_parse_from(line).expect("well formed").command else {
                panic!("another command")
            };
            assert_eq!(run.command(), ["python", "-m", "train", "-o", "x"]);
        }
    }

    #[test]
    fn every_command_explains_itself_with_an_example() {
        let mut command = Cli::command();
        command.build();
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            let help = sub.clone().render_long_help().to_string();
            assert!(help.contains("Example"), "{}", sub.get_name());
        }
    }
}
