//! `rankscope bench`.
//!
//! | module | content |
//! |---|---|
//! | [`options`] | the options, and what they request |
//! | [`choice`] | the library to measure |
//! | [`launch`] | the process that the user started |
//! | [`rank`] | one rank |
//! | [`output`] | rows while they are measured |
//! | [`conclusion`] | pictures, the comparison, the exit status |

mod choice;
mod conclusion;
mod launch;
mod options;
mod output;
mod rank;

pub use options::Bench;

use super::{Exit, print};
use anyhow::{Result, bail};
use options::Role;
use rankscope_formats::bench::BenchResults;
use rankscope_workloads::world::World;

impl Bench {
    pub fn run(self) -> Result<Exit> {
        if self.schema {
            print::json(&schemars::schema_for!(BenchResults))?;
            return Ok(Exit::Fine);
        }
        match self.role {
            Role::Starter => launch::start_ranks(&self),
            Role::Rank => match World::of_local_rank() {
                Some(world) => rank::run(&self, &world),
                None => bail!("this process is no rank"),
            },
            Role::Auto => match World::from_environment().filter(|_| self.ranks.is_none()) {
                Some(world) => rank::run(&self, &world),
                None => launch::measure(&self),
            },
        }
    }
}
