//! Starts a command with the library preloaded, and stays out of its way until it has ended.
//!
//! The job keeps our process group, terminal, standard streams, signal dispositions and signal mask; what reaches only
//! us is passed on, what the terminal sends to the whole group is not sent twice. Nothing is printed before the job
//! starts, and what is printed afterwards goes to standard error: the job's output stays its own.

pub mod ending;
pub mod inherited;
pub mod job;
pub mod library;
pub mod live;
pub mod live_files;
pub mod lock;
pub mod nccl;
pub mod nvtx;
pub mod preload;
pub mod program;
pub mod record;
pub mod room;
pub mod run_directory;
pub mod signals;
pub mod stop;
pub mod witness;
