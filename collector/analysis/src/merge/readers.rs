//! What the readers of ranks need of the run: clocks, identities, steps, and other files of the run directory.

use crate::identity::Identities;
use crate::ingest::gpu_samples::SampledGpus;
use crate::ingest::ray_tasks::RayTasks;
use crate::matching::stride;
use crate::merge::logs::Logs;
use crate::merge::options::shared_path;
use crate::merge::units::read::RankInput;
use crate::rank::anchors::Anchors;
use crate::rank::{FrameworkTask, GpuTrack, RankReader};
use crate::steps::plan::StepPlan;
use crate::structure::Structure;
use rankscope_formats::ids::RankIndex;
use std::io;

/// Steps and structure, by world.
#[derive(Clone, Copy)]
pub struct Worlds<'a> {
    /// Steps of each world.
    pub plans: &'a [StepPlan],
    /// Structure of each world.
    pub structures: &'a [Structure],
}

impl Worlds<'_> {
    /// Returns the ends of the steps of a rank.
    pub fn anchors_of(self, identities: &Identities, rank: RankIndex) -> Anchors {
        identities.ranks[rank.index()]
            .world
            .and_then(|world| self.plans.get(world as usize))
            .map_or_else(Anchors::default, |plan| plan.anchors_of(rank))
    }
}

/// Other files of a run directory, whose content is added to the ranks.
pub struct Additions<'a> {
    /// Samples of the GPUs.
    pub gpus: &'a SampledGpus,
    /// Tasks of Ray.
    pub ray: &'a RayTasks,
}

/// Makes the reader of each rank.
#[derive(Clone, Copy)]
pub struct Readers<'a> {
    /// The logs.
    pub logs: Logs<'a>,
    /// Identities of ranks and communicators.
    pub identities: &'a Identities,
    /// Other files.
    pub additions: &'a Additions<'a>,
    /// Steps.
    pub worlds: Worlds<'a>,
}

impl<'a> Readers<'a> {
    /// Opens the reader of a rank.
    pub fn reader(&self, rank: RankIndex) -> RankReader<'a> {
        self.logs
            .reader(self.identities, rank, self.anchors(rank))
            .with_stride(self.stride())
            .with_gpus(self.gpus(rank))
            .with_tasks(self.tasks(rank))
    }

    /// Returns what another process needs to make the same reader.
    ///
    /// # Errors
    /// The directory of this process is unknown, so that the log has no absolute path.
    pub fn input(&self, rank: RankIndex) -> io::Result<(RankInput, Anchors)> {
        let identity = &self.identities.ranks[rank.index()];
        let log = self.logs.of_rank(self.identities, rank);
        let path = shared_path(&log.path)?;
        let line = self.logs.clocks.line(identity.log);
        let (gpus, tasks) = (self.gpus(rank), self.tasks(rank));
        let input = RankInput::new(rank, (log, &path), line, &identity.communicators, gpus, tasks);
        Ok((input, self.anchors(rank)))
    }

    /// Returns the maximum number of records that a reader reads at once.
    pub fn stride(&self) -> usize {
        stride(self.identities.ranks.len())
    }

    fn anchors(&self, rank: RankIndex) -> Anchors {
        self.worlds.anchors_of(self.identities, rank)
    }

    fn gpus(&self, rank: RankIndex) -> Vec<GpuTrack> {
        let Logs { all, clocks, .. } = self.logs;
        self.additions.gpus.of_rank(rank, self.identities, clocks, all)
    }

    /// Returns the tasks that a framework ran in the process of a rank.
    fn tasks(&self, rank: RankIndex) -> Vec<FrameworkTask> {
        let log = self.identities.ranks[rank.index()].log;
        let line = self.logs.clocks.line(log);
        self.additions.ray.of_log(&self.logs.all[log], &line)
    }
}
