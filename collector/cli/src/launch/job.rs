//! Process of the job: start, signals, and end.

use super::ending::Ending;
use super::inherited::Inherited;
use super::signals::{Received, Signals};
use crate::launch::signal_observer::SignalObserver;
use rankscope_ranklog::process::Stat;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Signals by which users and schedulers request the end of a job.
const TO_END: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// First process of the job. It stays in the process group of rankscope.
pub struct Job {
    pid: i32,
    signals: Signals,
    /// Observer of signals to the group. Without it, because its process could not be started, every signal is
    /// forwarded.
    witness: Option<SignalObserver>,
    /// Whether the terminal requested a stop of the group. Then a stop of the job also stops this process.
    asked_to_stop: bool,
    /// Signal that requested the end of the job, if any.
    asked_to_end: Option<i32>,
    /// Signals that are forwarded to another process instead of the job, each with that process.
    diverted: Vec<(i32, Option<i32>)>,
}

/// End of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accompanied {
    /// How the job ended.
    pub ending: Ending,
    /// Signal that requested the end of the job, whether or not the job obeyed it.
    pub asked_to_end: Option<i32>,
}

impl Job {
    /// Starts the command. From here on signals stay pending until [`Job::accompany`].
    pub fn start(command: &mut Command) -> io::Result<Self> {
        Self::start_with(command, Inherited::read())
    }

    /// Starts one of several jobs in sequence. Signals stay blocked between them, and the inherited state was read
    /// before the first.
    pub fn start_with(command: &mut Command, inherited: Inherited) -> io::Result<Self> {
        let signals = Signals::of_a_job();
        signals.block();
        // If the parent ignored SIGCHLD, the kernel would reap the job before its status can be read.
        // SAFETY: a default disposition.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        let witness = SignalObserver::start(&signals)
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
                diverted: Vec::new(),
            }),
            Err(error) => {
                signals.unblock();
                Err(error)
            }
        }
    }

    /// Returns the number of the first process. It is not waited for before [`Job::accompany`].
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Forwards a signal to this process instead of the job, or to none. The process must be a child that is not waited for
    /// before [`Job::accompany`] returns.
    pub fn divert(&mut self, signal: i32, pid: Option<i32>) {
        self.diverted.push((signal, pid));
    }

    /// Forwards signals to the job until it ends.
    pub fn accompany(self) -> Ending {
        self.accompany_and_note().ending
    }

    /// Forwards signals to the job until it ends, and records whether its end was requested.
    pub fn accompany_and_note(mut self) -> Accompanied {
        loop {
            let received = self.signals.wait();
            if received.signal == libc::SIGCHLD {
                // One SIGCHLD may represent several changes.
                while let Some(change) = self.next_change() {
                    match change {
                        Change::Ended(ending) => {
                            let late = asked_meanwhile();
                            // Pending signals were meant for the job, which has ended. From now on Ctrl-C stops the
                            // merge.
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
        let is_it = |&&(signal, _): &&(i32, Option<i32>)| signal == received.signal;
        if let Some(&(signal, pid)) = self.diverted.iter().find(is_it) {
            if let Some(pid) = pid {
                // SAFETY: the child is not reaped yet, so the process id is still its own.
                unsafe { libc::kill(pid, signal) };
            }
            return;
        }
        if received.signal == libc::SIGTSTP {
            self.asked_to_stop = true;
        }
        if TO_END.contains(&received.signal) {
            self.asked_to_end = Some(received.signal);
        }
        if self.has_reached_the_job(&received) {
            return;
        }
        tracing::debug!(signal = received.signal, pid = self.pid, "forwarding a signal");
        match received.value {
            // SAFETY: the child is not reaped yet, so the process id is still its own.
            Some(value) => unsafe { libc::sigqueue(self.pid, received.signal, value) },
            // SAFETY: as above.
            None => unsafe { libc::kill(self.pid, received.signal) },
        };
    }

    /// Whether the signal went to the whole group: the terminal sent it, or the witness received it, too.
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

    /// Stops this process together with the job. After Ctrl-Z the shell takes the terminal back only when both have
    /// stopped.
    fn stop_like_the_job(&mut self, signal: i32) {
        let asked = std::mem::take(&mut self.asked_to_stop);
        let by_the_terminal = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU].contains(&signal);
        // A sender that stops only the job (SIGSTOP) will also continue only the job.
        if !asked && !by_the_terminal {
            return;
        }
        let signal = if by_the_terminal { signal } else { libc::SIGTSTP };
        let only = Signals::none().with(signal);
        // The signal raised below replaces one that the terminal also sent to this process.
        only.forget_pending();
        // This is the default action. In an orphaned group, where no process could continue this one, the kernel
        // ignores it.
        // SAFETY: plain calls.
        unsafe { libc::raise(signal) };
        only.unblock();
        // This process is stopped here until it is continued.
        only.block();
        if self.is_stopped() {
            // SAFETY: the child is not reaped yet, so the process id is still its own.
            unsafe { libc::kill(self.pid, libc::SIGCONT) };
        }
    }

    fn is_stopped(&self) -> bool {
        Stat::of(&self.pid.to_string()).is_some_and(|stat| stat.field(3) == Some("T"))
    }
}

/// Returns the pending signal that requests the end of the next job, before that job has started.
pub fn asked_meanwhile() -> Option<i32> {
    TO_END.into_iter().find(|&signal| Signals::is_pending(signal))
}

enum Change {
    Ended(Ending),
    Stopped(i32),
}
