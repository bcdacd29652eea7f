//! The job's process: started, accompanied, and its end waited for.

use super::ending::Ending;
use super::inherited::Inherited;
use super::signals::{Received, Signals};
use super::witness::Witness;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Signals by which people and schedulers ask a job to end.
const TO_END: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// The job's first process, which stays in our process group.
pub struct Job {
    pid: i32,
    signals: Signals,
    /// None where no process could be had for it: then every signal is passed on.
    witness: Option<Witness>,
    /// The terminal asked the group to stop: whatever then stops the job stops us too.
    asked_to_stop: bool,
    /// Somebody asked the job to end, by this signal.
    asked_to_end: Option<i32>,
}

/// What became of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accompanied {
    /// How it ended.
    pub ending: Ending,
    /// The signal by which somebody asked it to end, whatever it made of that.
    pub asked_to_end: Option<i32>,
}

impl Job {
    /// Starts the command. From here on signals wait for [`Job::accompany`].
    pub fn start(command: &mut Command) -> io::Result<Self> {
        Self::start_with(command, Inherited::read())
    }

    /// The same, of one job after the other: signals stay blocked between them, and what we inherited was read before the first.
    pub fn start_with(command: &mut Command, inherited: Inherited) -> io::Result<Self> {
        let signals = Signals::of_a_job();
        signals.block();
        // If our parent ignores SIGCHLD the kernel would reap the job before we can ask how it ended.
        // SAFETY: a default disposition.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        let witness = Witness::start(&signals)
            .inspect_err(|error| tracing::warn!(%error, "no witness"))
            .ok();
        // SAFETY: the closure makes system calls only.
        unsafe { command.pre_exec(move || inherited.restore()) };
        match command.spawn() {
            Ok(child) => Ok(Self {
                pid: child.id() as i32,
                signals,
                witness,
                asked_to_stop: false,
                asked_to_end: None,
            }),
            Err(error) => {
                signals.unblock();
                Err(error)
            }
        }
    }

    /// Passes on what is meant for the job until it ends.
    pub fn accompany(self) -> Ending {
        self.accompany_and_note().ending
    }

    /// The same; notes whether somebody asked the job to end.
    pub fn accompany_and_note(mut self) -> Accompanied {
        loop {
            let received = self.signals.wait();
            if received.signal == libc::SIGCHLD {
                // One SIGCHLD may stand for several changes.
                while let Some(change) = self.next_change() {
                    match change {
                        Change::Ended(ending) => {
                            let late = asked_meanwhile();
                            // Meant for the job, which is gone; a Ctrl-C from now on stops the merge.
                            self.signals.forget_pending();
                            return Accompanied {
                                ending,
                                asked_to_end: self.asked_to_end.or(late),
                            };
                        }
                        Change::Stopped(signal) => self.stop_like_the_job(signal),
                    }
                }
            } else {
                self.pass_on(received);
            }
        }
    }

    fn pass_on(&mut self, received: Received) {
        if received.signal == libc::SIGTSTP {
            self.asked_to_stop = true;
        }
        if TO_END.contains(&received.signal) {
            self.asked_to_end = Some(received.signal);
        }
        if self.has_reached_the_job(&received) {
            return;
        }
        tracing::debug!(signal = received.signal, pid = self.pid, "passing a signal on");
        match received.value {
            // SAFETY: the child is not reaped yet, so that the id is its own.
            Some(value) => unsafe { libc::sigqueue(self.pid, received.signal, value) },
            // SAFETY: as above.
            None => unsafe { libc::kill(self.pid, received.signal) },
        };
    }

    /// True if the signal went to the whole group: sent by its terminal, or seen by the witness.
    fn has_reached_the_job(&mut self, received: &Received) -> bool {
        let by_the_terminal = received.from_kernel
            && matches!(
                received.signal,
                libc::SIGINT
                    | libc::SIGQUIT
                    | libc::SIGTSTP
                    | libc::SIGTTIN
                    | libc::SIGTTOU
                    | libc::SIGHUP
                    | libc::SIGCONT
                    | libc::SIGWINCH
            );
        self.witness
            .as_mut()
            .is_some_and(|witness| witness.has_seen(received.signal))
            || by_the_terminal
    }

    fn next_change(&self) -> Option<Change> {
        loop {
            let mut status = 0;
            // SAFETY: the status is valid memory.
            let pid = unsafe { libc::waitpid(self.pid, &raw mut status, libc::WNOHANG | libc::WUNTRACED) };
            if pid != self.pid {
                if pid < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                return None;
            }
            if libc::WIFSTOPPED(status) {
                return Some(Change::Stopped(libc::WSTOPSIG(status)));
            }
            return Some(Change::Ended(Ending::from_wait_status(status)));
        }
    }

    /// Ctrl-Z stops the job; the shell takes the terminal back only when we stop too.
    fn stop_like_the_job(&mut self, signal: i32) {
        let asked = std::mem::take(&mut self.asked_to_stop);
        let by_the_terminal = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU].contains(&signal);
        // Somebody who stops just this one process (SIGSTOP) will wake just that one.
        if !asked && !by_the_terminal {
            return;
        }
        let signal = if by_the_terminal { signal } else { libc::SIGTSTP };
        let only = Signals::none().with(signal);
        // What the terminal sent to us as well has had its effect by this.
        only.forget_pending();
        // The default action; in an orphaned group, where nobody could wake us, the kernel ignores it.
        // SAFETY: plain calls.
        unsafe { libc::raise(signal) };
        only.unblock();
        // Stopped here, until somebody goes on with us.
        only.block();
        if self.is_stopped() {
            // SAFETY: the child is not reaped yet, so that the id is its own.
            unsafe { libc::kill(self.pid, libc::SIGCONT) };
        }
    }

    fn is_stopped(&self) -> bool {
        fs::read_to_string(format!("/proc/{}/stat", self.pid)).is_ok_and(|stat| {
            stat.rsplit_once(')')
                .is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
        })
    }
}

/// The signal by which somebody asks the next job to end that is not started yet.
pub fn asked_meanwhile() -> Option<i32> {
    TO_END.into_iter().find(|&signal| Signals::is_pending(signal))
}

enum Change {
    Ended(Ending),
    Stopped(i32),
}
