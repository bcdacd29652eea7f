//! Options of the command line.

use crate::truth::Truth;
use std::time::Duration;

const USAGE: &str = "\
overlap [--rounds N] [--compute-us N] [--communication-us N] [--overlap-percent N] [--idle-us N]
        [--nccl LIBRARY] [--ready COMMAND] [--wait-ms N]

Each round computes, communicates beside that for --overlap-percent of the communication's time, and does nothing for a
while. When all is set up it runs COMMAND, which is to switch recording on, and waits.";

/// Options of the program.
pub struct Options {
    /// Number of rounds.
    pub rounds: usize,
    /// Compute time of a round, in microseconds.
    pub compute_us: u64,
    /// Communication time of a round, in microseconds.
    pub communication_us: u64,
    /// Share of the communication's time with concurrent compute, in percent.
    pub overlap_percent: u64,
    /// Sleep of the host after a round, in microseconds.
    pub idle_us: u64,
    /// Name or path of NCCL's library.
    pub nccl: String,
    /// Command that runs when everything is set up.
    pub ready: Option<String>,
    /// Wait after that command.
    pub wait: Duration,
}

impl Options {
    /// Reads `--name value` pairs.
    pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            rounds: 100,
            compute_us: 2000,
            communication_us: 1500,
            overlap_percent: 40,
            idle_us: 700,
            nccl: "libnccl.so.2".to_owned(),
            ready: None,
            wait: Duration::ZERO,
        };
        let mut arguments = arguments;
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or(USAGE)?;
            let number = || {
                value
                    .parse::<u64>()
                    .map_err(|_| format!("{name} {value}: no number\n{USAGE}"))
            };
            match name.as_str() {
                "--rounds" => options.rounds = number()? as usize,
                "--compute-us" => options.compute_us = number()?,
                "--communication-us" => options.communication_us = number()?,
                "--overlap-percent" => options.overlap_percent = number()?,
                "--idle-us" => options.idle_us = number()?,
                "--wait-ms" => options.wait = Duration::from_millis(number()?),
                "--nccl" => options.nccl = value,
                "--ready" => options.ready = Some(value),
                _ => return Err(format!("{name}: unknown\n{USAGE}")),
            }
        }
        if options.overlap_percent > 100 || options.overlapped_us() > options.compute_us {
            return Err("so much cannot overlap: there is not enough compute".to_owned());
        }
        if options.rounds == 0 || options.compute_us == 0 || options.communication_us == 0 {
            return Err("without compute or communication there is nothing to compare".to_owned());
        }
        Ok(options)
    }

    /// Returns the overlapped time of a round, in microseconds.
    pub fn overlapped_us(&self) -> u64 {
        self.communication_us * self.overlap_percent / 100
    }

    /// Returns the parts of all rounds on an ideal device and host without start delays.
    pub fn planned(&self) -> Truth {
        let ns = |us: u64| us * 1000 * self.rounds as u64;
        let overlapped = self.overlapped_us();
        // After the last round no idle time is measured.
        let idle_ns = self.idle_us * 1000 * (self.rounds as u64 - 1);
        let busy_ns = ns(self.compute_us + self.communication_us - overlapped);
        Truth {
            window_ns: busy_ns + idle_ns,
            compute_only_ns: ns(self.compute_us - overlapped),
            overlapped_ns: ns(overlapped),
            exposed_communication_ns: ns(self.communication_us - overlapped),
            idle_ns,
            compute_kernels: 0,
            communication_kernels: 0,
        }
        .with_kernels(self.rounds, self.parts())
    }

    /// Returns the number of compute kernels in a round: before the communication, and concurrent with it.
    pub fn parts(&self) -> usize {
        usize::from(self.compute_us > self.overlapped_us()) + usize::from(self.overlapped_us() > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options, String> {
        Options::parse(text.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn the_planned_parts_add_up() {
        for overlap in [0, 40, 100] {
            let options = parse(&format!("--overlap-percent {overlap}")).expect("options");
            let planned = options.planned();
            let parts = planned.compute_only_ns
                + planned.overlapped_ns
                + planned.exposed_communication_ns
                + planned.idle_ns;
            assert_eq!(parts, planned.window_ns);
            assert_eq!(planned.overlapped_ns, 100 * 1500 * 10 * overlap);
        }
    }

    #[test]
    fn impossible_plans_are_refused() {
        for text in [
            "--rounds",
            "--rounds x",
            "--what 1",
            "--compute-us 100",
            "--overlap-percent 101",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
