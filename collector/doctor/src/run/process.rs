//! Properties of one process of a recorded run.

use rankscope_ranklog::reader::RankLog;
use std::collections::BTreeMap;

/// Variables by which launchers number the ranks.
const RANK_VARIABLES: [&str; 4] = ["RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"];

/// Process of a run, from its log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Rank, if the launcher has numbered it.
    pub rank: Option<u32>,
    /// Name for messages: `rank 3`, or host and process id.
    pub name: String,
    /// Name of the host.
    pub host: String,
    /// Identity of the host's boot.
    pub boot: String,
    /// All properties of the log.
    pub properties: BTreeMap<String, String>,
    /// Number of communicators by library.
    pub communicators: BTreeMap<&'static str, usize>,
    /// Status of the wall clock at the end, as adjtimex reported it.
    pub clock_status: Option<u32>,
}

impl Process {
    /// Takes the properties of a log.
    pub fn of(log: &RankLog) -> Self {
        let mut process = Self::from_properties(log.properties.clone(), log.pid);
        process.clock_status = log.calibrations.last().map(|entry| entry.adjtimex_status);
        for communicator in log.communicators.values() {
            *process
                .communicators
                .entry(communicator.library.name())
                .or_default() += 1;
        }
        process
    }

    /// Takes properties by name.
    pub fn from_properties(properties: BTreeMap<String, String>, pid: u32) -> Self {
        let rank = RANK_VARIABLES
            .iter()
            .find_map(|name| properties.get(&format!("env.{name}"))?.parse().ok());
        let host = properties.get("host").cloned().unwrap_or_default();
        Self {
            rank,
            name: rank.map_or_else(
                || format!("process {pid} on {host}"),
                |rank| format!("rank {rank}"),
            ),
            boot: properties.get("boot_id").cloned().unwrap_or_else(|| host.clone()),
            host,
            properties,
            communicators: BTreeMap::new(),
            clock_status: None,
        }
    }

    /// Whether the process used RCCL, which reads other variables than NCCL.
    pub fn has_rccl(&self) -> bool {
        let file = self.properties.get("library.nccl.file");
        file.is_some_and(|file| file.contains("rccl"))
    }

    /// Returns the recorded environment variables.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &String)> {
        self.properties
            .iter()
            .filter_map(|(key, value)| Some((key.strip_prefix("env.")?, value)))
    }
}
