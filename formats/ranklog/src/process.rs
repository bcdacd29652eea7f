//! Identity of this process: the properties in the header of a log. The recorder's own thread reads them once.

use super::secrets::Redactor;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Prefixes of environment variables that affect communication or identify the position of a process in the job.
const ENVIRONMENT_PREFIXES: [&str; 24] = [
    "NCCL_",
    "RCCL_",
    "GLOO_",
    "TORCH_",
    "TORCHELASTIC_",
    "MASTER_",
    "OMPI_",
    "PMI_",
    "PMIX_",
    "MPICH_",
    "UCX_",
    "FI_",
    "SLURM_",
    "CUDA_",
    "NVIDIA_",
    "HIP_",
    "ROCR_",
    "OMP_",
    "RANKSCOPE_",
    "RAY_",
    "JAX_",
    "HOROVOD_",
    "DEEPSPEED_",
    "KUBERNETES_POD",
];

/// Names of further environment variables that are recorded.
const ENVIRONMENT_NAMES: [&str; 14] = [
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "ROLE_RANK",
    "ROLE_NAME",
    "NODE_RANK",
    "NVTX_INJECTION64_PATH",
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "HOSTNAME",
    "KINETO_USE_DAEMON",
];

/// Returns true if this variable belongs in the header of a log.
pub fn environment_is_relevant(name: &str) -> bool {
    ENVIRONMENT_NAMES.contains(&name) || ENVIRONMENT_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns the list of processors that the calling thread may use, as in `0-3,8`.
fn allowed_processors() -> Option<String> {
    let status = fs::read_to_string("/proc/thread-self/status").ok()?;
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(list.trim().to_owned()).filter(|list| !list.is_empty())
}

fn read_trimmed(path: &str) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
}

fn zero_separated(path: &str) -> Vec<String> {
    let bytes = fs::read(path).unwrap_or_default();
    bytes
        .split(|&byte| byte == 0)
        .filter(|part| !part.is_empty())
        .map(|part| String::from_utf8_lossy(part).into_owned())
        .collect()
}

/// Returns the display name of this host. Its identity is `boot_id` and `time_namespace`.
pub fn host_name() -> String {
    read_trimmed("/proc/sys/kernel/hostname").unwrap_or_else(|| "unknown-host".to_owned())
}

/// Returns the start time of a process, in clock ticks since boot (field 22 of /proc/PID/stat). Together with the PID
/// it identifies a process.
pub fn start_time(pid: &str) -> Option<String> {
    Stat::of(pid)?.field(22).map(str::to_owned)
}

/// What /proc/PID/stat shows of a process or a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat(String);

impl Stat {
    /// Reads the file of a process that runs, or that its parent has not waited for.
    pub fn of(pid: &str) -> Option<Self> {
        Self::read(&format!("/proc/{pid}/stat"))
    }

    fn read(path: &str) -> Option<Self> {
        let text = fs::read_to_string(path).ok()?;
        // The command name may contain spaces and parentheses; the fields start after the last ')'.
        let (_, fields) = text.rsplit_once(')')?;
        Some(Self(fields.to_owned()))
    }

    /// Returns a field by its number in proc_pid_stat(5), from 3 on.
    pub fn field(&self, number: usize) -> Option<&str> {
        self.0.split_whitespace().nth(number.checked_sub(3)?)
    }
}

/// Bit of a thread's flags while it ends (`PF_EXITING` of linux/sched.h).
const EXITING: u64 = 4;

/// Returns true if the process with this start time runs. One that has ended and whose parent has not read its status does not
/// run, and neither does one whose last threads are ending. A process whose main thread alone has ended still runs.
pub fn is_running(pid: u32, start_time: &str) -> bool {
    let Some(main) = Stat::of(&pid.to_string()) else {
        return false;
    };
    let has_ended = |thread: &Stat| {
        let flags: u64 = thread.field(9).and_then(|flags| flags.parse().ok()).unwrap_or(0);
        matches!(thread.field(3), Some("Z" | "X")) || flags & EXITING != 0
    };
    let any_thread_runs = || {
        let threads = fs::read_dir(format!("/proc/{pid}/task"));
        threads.is_ok_and(|threads| {
            threads
                .filter_map(|thread| Stat::read(&thread.ok()?.path().join("stat").to_string_lossy()))
                .any(|thread| !has_ended(&thread))
        })
    };
    main.field(22) == Some(start_time) && (!has_ended(&main) || any_thread_runs())
}

/// Returns the status, in the format of `waitpid`, of a process that has ended and whose parent has not read the status yet;
/// `None` for any other process. The kernel shows 0 to readers without permission, so 0 is `None` as well (field 52 of
/// /proc/PID/stat).
pub fn status_of_zombie(pid: u32, start_time: &str) -> Option<i32> {
    let stat = Stat::of(&pid.to_string())?;
    let is_zombie = stat.field(3) == Some("Z") && stat.field(22) == Some(start_time);
    let status = stat.field(52)?.parse().ok()?;
    (is_zombie && status != 0).then_some(status)
}

/// Returns true if the main thread has ended and at most `own` other threads are left. These are the recorder's own
/// threads, so only they keep the process alive.
pub fn only_own_threads_are_left(own: usize) -> bool {
    // The main thread stays in the list as a zombie until the other threads are gone.
    let main_ended = Stat::of("self").is_some_and(|stat| stat.field(3) == Some("Z"));
    main_ended && fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() <= 1 + own)
}

/// Returns the ID of the current boot of this machine.
pub fn boot_id() -> Option<String> {
    read_trimmed("/proc/sys/kernel/random/boot_id")
}

/// Returns the name of the processor, as the processor itself reports it. `/proc/cpuinfo` is not used: on some machines
/// the kernel interrupts every core to fill it.
#[cfg(target_arch = "x86_64")]
fn processor_model() -> Option<String> {
    use std::arch::x86_64::__cpuid;
    const HIGHEST_EXTENDED: u32 = 0x8000_0000;
    const BRAND: std::ops::RangeInclusive<u32> = 0x8000_0002..=0x8000_0004;
    if __cpuid(HIGHEST_EXTENDED).eax < *BRAND.end() {
        return None;
    }
    let bytes: Vec<u8> = BRAND
        .flat_map(|leaf| {
            let part = __cpuid(leaf);
            [part.eax, part.ebx, part.ecx, part.edx]
        })
        .flat_map(u32::to_le_bytes)
        .take_while(|&byte| byte != 0)
        .collect();
    let name = String::from_utf8_lossy(&bytes)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    (!name.is_empty()).then_some(name)
}

/// Returns the number that identifies the maker and model of the processor.
#[cfg(not(target_arch = "x86_64"))]
fn processor_model() -> Option<String> {
    read_trimmed("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1")
}

/// Returns the name of the file that a worker of Ray prints to, without its directory. Ray names it after the worker, and so does
/// Ray's timeline. Names of other files may contain anything, and are not recorded.
fn output_file_of_ray() -> Option<String> {
    // Only the link is read. The file may be on a network file system that does not answer, so it is not touched.
    let path = fs::read_link("/proc/self/fd/1").ok()?;
    ray_output(&path)
}

fn ray_output(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    name.starts_with("worker-").then(|| name.to_owned())
}

/// Returns all properties of this process for the header, as (key, value).
pub fn properties() -> Vec<(String, String)> {
    let mut out: Vec<(String, String)> = Vec::new();
    let environment = zero_separated("/proc/self/environ");
    let variables = || environment.iter().filter_map(|variable| variable.split_once('='));
    let value = |wanted: &str| variables().find(|(name, _)| *name == wanted);
    let redactor = Redactor::of_variables(|name| value(name).map(|(_, value)| value.to_owned()));
    let mut put = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            out.push((key.to_owned(), value));
        }
    };
    put("host", Some(host_name()));
    put("boot_id", boot_id());
    put(
        "time_namespace",
        fs::metadata("/proc/self/ns/time")
            .ok()
            .map(|meta| meta.ino().to_string()),
    );
    put("pid", Some(std::process::id().to_string()));
    // SAFETY: getppid cannot fail.
    put("parent_pid", Some(unsafe { libc::getppid() }.to_string()));
    put("start_time", start_time("self"));
    put(
        "executable",
        fs::read_link("/proc/self/exe")
            .ok()
            .map(|path| path.to_string_lossy().into_owned()),
    );
    put("stdout_file", output_file_of_ray());
    put(
        "command_line",
        Some(redactor.command_line(&zero_separated("/proc/self/cmdline"))),
    );
    // Number of processors that this process may use. If a host has more ranks than processors, they wait for each
    // other.
    put(
        "processors",
        std::thread::available_parallelism()
            .ok()
            .map(|count| count.to_string()),
    );
    // Launchers bind ranks to processors: with the lists of all ranks of a host, their union is known.
    put("processors_allowed", allowed_processors());
    put("processor_model", processor_model());
    put("kernel", read_trimmed("/proc/sys/kernel/osrelease"));
    put("rankscope_version", Some(env!("CARGO_PKG_VERSION").to_owned()));
    for (name, value) in variables().filter(|(name, _)| environment_is_relevant(name)) {
        out.push((format!("env.{name}"), redactor.value(name, value)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variables_that_steer_a_job_are_recorded() {
        assert!(environment_is_relevant("NCCL_DEBUG") && !environment_is_relevant("HOME"));
    }

    #[test]
    fn only_the_output_file_of_a_worker_of_ray_is_recorded() {
        let worker = Path::new("/tmp/ray/session_1/logs/worker-ab-01000000-7.out");
        assert_eq!(ray_output(worker).as_deref(), Some("worker-ab-01000000-7.out"));
        for other in ["/home/user/secret.out", "pipe:[4711]", "/dev/null", "/"] {
            assert_eq!(ray_output(Path::new(other)), None, "{other}");
        }
    }

    #[test]
    fn a_process_runs_until_it_has_ended_whether_or_not_its_parent_has_noticed() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "read line; exit 5"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("a shell");
        let (pid, start) = (child.id(), start_time(&child.id().to_string()).expect("it runs"));
        assert!(is_running(pid, &start) && !is_running(pid, "1"));
        assert_eq!(status_of_zombie(pid, &start), None);
        drop(child.stdin.take());
        let began = std::time::Instant::now();
        while is_running(pid, &start) {
            assert!(began.elapsed().as_secs() < 60, "it has ended");
            std::thread::yield_now();
        }
        // A process that is ending does not run, and becomes a zombie a moment later.
        while status_of_zombie(pid, &start).is_none() {
            assert!(began.elapsed().as_secs() < 60, "it has a status");
            std::thread::yield_now();
        }
        assert_eq!(status_of_zombie(pid, &start), Some(5 << 8));
        assert!(child.wait().is_ok());
        assert!(!is_running(pid, &start));
        assert_eq!(status_of_zombie(pid, &start), None);
    }

    #[test]
    fn this_process_can_be_named() {
        let properties = properties();
        for key in [
            "host",
            "boot_id",
            "pid",
            "start_time",
            "command_line",
            "processor_model",
        ] {
            assert!(
                properties
                    .iter()
                    .any(|(name, value)| name == key && !value.is_empty()),
                "{key}"
            );
        }
    }
}
