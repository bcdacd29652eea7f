//! Optional programs that are installed separately, because their libraries are large or not available everywhere.

use anyhow::{Result, bail};
use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// A separate program.
pub struct Companion {
    /// File name.
    pub program: &'static str,
    /// Advice for the case that it is not found.
    pub where_from: &'static str,
}

impl Companion {
    /// Returns the path of the program: next to this one if it exists there, else its name, which the `PATH` resolves.
    pub fn path(&self) -> PathBuf {
        self.beside().unwrap_or_else(|| PathBuf::from(self.program))
    }

    /// Returns the program that is installed: next to this one, or on the `PATH`.
    pub fn installed(&self) -> Option<PathBuf> {
        let on_path = || {
            let folders = std::env::var_os("PATH")?;
            std::env::split_paths(&folders)
                .map(|folder| folder.join(self.program))
                .find(|program| program.is_file())
        };
        self.beside().or_else(on_path)
    }

    fn beside(&self) -> Option<PathBuf> {
        let program = std::env::current_exe().ok()?.with_file_name(self.program);
        program.is_file().then_some(program)
    }

    /// Replaces this process with the program, which then receives the signals and sets the exit status.
    ///
    /// # Errors
    /// The program is not found, or cannot be started.
    pub fn start(&self, arguments: &[OsString]) -> Result<Infallible> {
        let path = self.path();
        let error = Command::new(&path).args(arguments).exec();
        bail!("cannot start {}: {error}. {}", path.display(), self.where_from)
    }
}
