//! Whether a recording would work here, and what is wrong with the machine, the libraries and the variables.
//!
//! | module | content |
//! |---|---|
//! | [`surroundings`] | the machine and the environment, or a prepared tree in tests |
//! | [`program`] | the file of a program, and whether a preload reaches it |
//! | [`facts`] | what is found: command, libraries, machine, driver, devices, variables |
//! | [`checks`] | functions from facts to results, a subject each |
//! | [`ignored`] | which variables a version of NCCL does not read |
//! | [`launcher`] | what `rankscope run` would do to the command |
//! | [`run`] | checks of a recorded run: facts from its logs, and differences between its ranks |
//! | [`check`], [`text`] | a result, and its printed form |
//!
//! A check never fails. A fact that cannot be read is absent, and then its checks are silent.

pub mod check;
pub mod checks;
pub mod facts;
pub mod ignored;
pub mod launcher;
pub mod program;
pub mod run;
pub mod surroundings;
pub mod text;
