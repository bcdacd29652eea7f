//! A process that is not a child of this one: its end, its exit status, and signals to it and to no later process with its
//! number.

use rankscope_ranklog::process;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `PIDFD_GET_INFO` of linux/pidfd.h: `_IOWR(0xFF, 11, struct pidfd_info)` with the first size of the struct, 64 bytes.
const PIDFD_GET_INFO: libc::c_ulong = 0xC040_FF0B;
/// `PIDFD_INFO_EXIT`: the exit status is requested, or was filled in.
const PIDFD_INFO_EXIT: u64 = 1 << 3;

/// `struct pidfd_info` of linux/pidfd.h, in its first size.
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    cgroup: u64,
    ids: [u32; 11],
    /// Status in the format of `waitpid`.
    exit_code: i32,
}

/// A process (a pidfd).
#[derive(Debug)]
pub struct ProcessHandle {
    descriptor: OwnedFd,
    pid: u32,
    start_time: String,
}

impl ProcessHandle {
    /// Opens a process by its number and its start time.
    ///
    /// # Errors
    ///
    /// If there is no such process, or another one has its number.
    pub fn open(pid: u32, start_time: &str) -> io::Result<Self> {
        // SAFETY: the call takes two numbers and returns a new descriptor, or −1.
        let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let descriptor = i32::try_from(descriptor).unwrap_or(-1);
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and belongs to nobody else.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        // Checked after the descriptor was opened: it belongs to the process that has the number now.
        if process::start_time(&pid.to_string()).as_deref() != Some(start_time) {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "another process has this number",
            ));
        }
        Ok(Self {
            descriptor,
            pid,
            start_time: start_time.to_owned(),
        })
    }

    /// Returns true if the process has ended.
    pub fn has_ended(&self) -> bool {
        let mut entry = libc::pollfd {
            fd: self.descriptor.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one valid entry, and no wait.
        unsafe { libc::poll(&raw mut entry, 1, 0) == 1 }
    }

    /// Returns the status of an ended process in the format of `waitpid`; `None` if it is not known. After the parent has read
    /// it, kernels older than Linux 6.15 do not keep it.
    pub fn exit_status(&self) -> Option<i32> {
        self.status_in_pidfd()
            .or_else(|| process::status_of_zombie(self.pid, &self.start_time))
    }

    fn status_in_pidfd(&self) -> Option<i32> {
        let mut info = PidfdInfo {
            mask: PIDFD_INFO_EXIT,
            ..PidfdInfo::default()
        };
        // SAFETY: the request has the size of the struct, which is valid memory.
        let result = unsafe { libc::ioctl(self.descriptor.as_raw_fd(), PIDFD_GET_INFO, &raw mut info) };
        (result == 0 && info.mask & PIDFD_INFO_EXIT != 0).then_some(info.exit_code)
    }

    /// Sends a signal to the process. A process that has ended gets none.
    pub fn signal(&self, signal: i32) {
        // SAFETY: the descriptor is open, and no further information is sent.
        unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.descriptor.as_raw_fd(),
                signal,
                std::ptr::null::<libc::siginfo_t>(),
                0,
            )
        };
    }
}
