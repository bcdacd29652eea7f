//! Start of a command with the library preloaded.
//!
//! The job keeps the process group, terminal, standard streams, signal dispositions and signal mask of rankscope.
//! Signals that reach only rankscope are forwarded. Signals that the terminal sends to the whole group are not sent
//! twice. Nothing is printed before the job starts. Later output goes to standard error, so the job's output is
//! unchanged.

pub mod companion;
pub mod end_job;
pub mod ending;
pub mod environment;
pub mod flight_job;
pub mod free_space;
pub mod gpu_sampler;
pub mod inherited;
pub mod job;
pub mod job_end;
pub mod launcher_input;
pub mod library;
pub mod live;
pub mod live_files;
pub mod lock;
pub mod nccl;
pub mod nvtx;
pub mod preload;
pub mod record;
pub mod run_directory;
pub mod signal_observer;
pub mod signals;
pub mod stop;
pub mod unrecorded_libraries;
