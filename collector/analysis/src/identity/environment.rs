//! Ranks, world sizes and attempts as the launcher set them in the environment.

use rankscope_ranklog::reader::RankLog;

/// Environment variables that contain a rank, in order of precedence.
pub const RANK_VARIABLES: [&str; 4] = ["RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"];
/// Environment variables that contain a world size, in order of precedence.
pub const SIZE_VARIABLES: [&str; 4] = ["WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"];

/// One incarnation of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptIdentity {
    /// Run id of the elastic launcher.
    pub run_id: Option<String>,
    /// Number of restarts.
    pub restart: u32,
}

/// Returns a number from the environment: as of the first communicator, else as of the start of the process.
pub fn environment_number(log: &RankLog, names: &[&str]) -> Option<u32> {
    ["env_at_communicator", "env"].iter().find_map(|source| {
        names.iter().find_map(|name| {
            log.properties
                .get(&format!("{source}.{name}"))?
                .trim()
                .parse()
                .ok()
        })
    })
}

/// Returns the elastic run id and restart count of a log.
pub fn elastic(log: &RankLog) -> Option<AttemptIdentity> {
    let get = |name: &str| log.properties.get(&format!("env.{name}"));
    let run_id = get("TORCHELASTIC_RUN_ID")?.clone();
    let restart = get("TORCHELASTIC_RESTART_COUNT")
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0);
    Some(AttemptIdentity {
        run_id: Some(run_id),
        restart,
    })
}
