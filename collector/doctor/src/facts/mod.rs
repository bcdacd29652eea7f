//! Facts of the command, of the libraries and of the machine. A check is a function of these.

pub mod command;
pub mod driver;
pub mod elf;
pub mod libraries;
mod linked;
pub mod loader_cache;
pub mod machine;
pub mod names;
pub mod nvml;
pub mod preload;
pub mod python;
mod time_limit;
pub mod topology;
pub mod variables;
pub mod version;

use crate::surroundings::Surroundings;
use command::Command;
use driver::Driver;
use libraries::Libraries;
use machine::Machine;
use python::Python;
use topology::Topology;
use variables::Variables;

/// Number of the capability `CAP_SYS_ADMIN`.
const SYS_ADMIN: u32 = 21;

/// All facts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The command, followed to its program.
    pub command: Option<Command>,
    /// The Python interpreter of the command; without a command, that of PATH.
    pub python: Option<Python>,
    /// Communication libraries.
    pub libraries: Libraries,
    /// Libraries that LD_PRELOAD names already.
    pub preloads: Vec<preload::Entry>,
    /// Variables that the libraries get.
    pub variables: Variables,
    /// The machine.
    pub machine: Machine,
    /// The NVIDIA driver.
    pub driver: Driver,
    /// Devices.
    pub topology: Topology,
    /// Whether this user may read performance counters where the driver restricts them: root, or SYS_ADMIN.
    pub may_profile: bool,
}

impl Facts {
    /// Gathers the facts. `words` is the command; empty if there is none.
    pub fn gather(surroundings: &Surroundings, words: &[String]) -> Self {
        let mut command = (!words.is_empty()).then(|| Command::follow(surroundings, words));
        let interpreter = match &command {
            Some(command) => command.python.clone(),
            None => Some("python3".to_owned()),
        };
        let python = interpreter.and_then(|name| Python::find(surroundings, &name));
        if let (Some(command), Some(python)) = (&mut command, &python) {
            command.add_interpreter(surroundings, &python.interpreter);
        }
        let native = command
            .as_ref()
            .filter(|command| command.python.is_none())
            .and_then(Command::program);
        let libraries = if searches_libraries(command.as_ref()) {
            Libraries::find(surroundings, python.as_ref(), native)
        } else {
            Libraries::default()
        };
        Self {
            libraries,
            preloads: preload::entries(surroundings),
            variables: Variables::read(surroundings),
            machine: Machine::read(surroundings),
            driver: Driver::read(surroundings),
            topology: Topology::read(surroundings),
            may_profile: surroundings.has_capability(SYS_ADMIN),
            command,
            python,
        }
    }

    /// Whether libraries were searched, so that a missing one is a fact.
    pub fn has_searched_libraries(&self) -> bool {
        searches_libraries(self.command.as_ref())
    }
}

/// Whether the libraries can be searched. Those of a missing program, or of one that runs elsewhere, are not known.
fn searches_libraries(command: Option<&Command>) -> bool {
    command.is_none_or(|command| command.program().is_some())
}
