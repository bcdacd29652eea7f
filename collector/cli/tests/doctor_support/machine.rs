//! A sound machine as a directory tree: two GPUs, two InfiniBand adapters, a Python environment with PyTorch and NCCL.
//!
//! It is made by hand from public documentation; see README.md beside this file.

use super::elf::Elf;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Command;

pub const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";
pub const PACKAGES: &str = "/opt/venv/lib/python3.11/site-packages";
pub const NCCL: &str = "nvidia/nccl/lib/libnccl.so.2";
const ROOT_PORT: &str = "/sys/devices/pci0000:00";

/// Directory tree, environment and command.
pub struct Machine {
    root: tempfile::TempDir,
    environment: BTreeMap<String, String>,
    /// Command to examine.
    pub command: Vec<String>,
}

impl Machine {
    /// Builds the sound machine.
    pub fn sound() -> Self {
        let mut machine = Self {
            root: tempfile::tempdir().expect("a temporary directory"),
            environment: BTreeMap::new(),
            command: vec!["torchrun".into(), "train.py".into()],
        };
        machine.set("PATH", "/opt/venv/bin:/usr/bin");
        machine.add_system();
        machine.add_python();
        machine.add_driver();
        machine.add_devices();
        machine
    }

    fn place(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    /// Sets an environment variable.
    pub fn set(&mut self, name: &str, value: &str) {
        self.environment.insert(name.to_owned(), value.to_owned());
    }

    /// Writes a file, with its directories.
    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let place = self.place(path);
        fs::create_dir_all(place.parent().expect("a parent")).expect("made");
        fs::write(place, content).expect("written");
    }

    /// Writes a program with these permissions.
    pub fn program(&self, path: &str, content: impl AsRef<[u8]>, mode: u32) {
        self.write(path, content);
        fs::set_permissions(self.place(path), fs::Permissions::from_mode(mode)).expect("changed");
    }

    /// Removes a file or a directory.
    pub fn remove(&self, path: &str) {
        let place = self.place(path);
        if place.is_dir() {
            fs::remove_dir_all(place).expect("removed");
        } else {
            fs::remove_file(place).expect("removed");
        }
    }

    /// Replaces a part of a file's text.
    pub fn edit(&self, path: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.place(path)).expect("text");
        assert!(text.contains(from), "{path}: {text}");
        self.write(path, text.replace(from, to));
    }

    fn add_system(&self) {
        let c_library = Elf {
            symbols: &["GLIBC_2.2.5", "GLIBC_2.34", "GLIBC_2.36", "GLIBC_PRIVATE"],
            ..Elf::default()
        };
        self.write("/lib/x86_64-linux-gnu/libc.so.6", c_library.to_bytes());
        self.write("/proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
        self.write("/proc/sys/kernel/hostname", "node0\n");
        self.write("/etc/hosts", "127.0.0.1\tlocalhost\n10.0.0.7\tnode0\n");
        self.write(
            "/proc/self/status",
            "Name:\tdoctor\nUid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000\n",
        );
        self.write(
            "/proc/self/limits",
            "Limit                     Soft Limit           Hard Limit           Units     \n\
             Max processes             514000               514000               processes \n\
             Max open files            65536                1048576              files     \n\
             Max locked memory         unlimited            unlimited            bytes     \n",
        );
        self.write("/proc/self/cgroup", "0::/user.slice\n");
        self.write("/sys/fs/cgroup/user.slice/memory.max", "1099511627776\n");
        self.write("/sys/fs/cgroup/user.slice/memory.current", "8589934592\n");
        self.write(
            "/proc/mounts",
            "tmpfs /dev/shm tmpfs rw,nosuid,nodev,size=67108864k 0 0\n",
        );
        self.write("/dev/shm/.keep", "");
        let clock = "/sys/devices/system/clocksource/clocksource0";
        self.write(&format!("{clock}/current_clocksource"), "tsc\n");
        self.write(&format!("{clock}/available_clocksource"), "tsc hpet acpi_pm \n");
        self.write("/sys/devices/system/node/node0/distance", "10 21\n");
        self.write("/sys/devices/system/node/node1/distance", "21 10\n");
        let dynamic = Elf {
            interpreter: LOADER,
            needed: &["libc.so.6"],
            ..Elf::default()
        };
        for name in ["env", "srun", "mpirun", "ssh", "bash"] {
            self.program(&format!("/usr/bin/{name}"), dynamic.to_bytes(), 0o755);
        }
    }

    fn add_python(&self) {
        let dynamic = Elf {
            interpreter: LOADER,
            needed: &["libc.so.6"],
            ..Elf::default()
        };
        self.program("/opt/venv/bin/python3", dynamic.to_bytes(), 0o755);
        self.program(
            "/opt/venv/bin/torchrun",
            "#!/opt/venv/bin/python3\nimport sys\n",
            0o755,
        );
        self.write(
            "/opt/venv/pyvenv.cfg",
            "home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.11.2\n",
        );
        self.package("torch/version.py", "__version__ = '2.7.1+cu126'\ncuda = '12.6'\n");
        let cpu = Elf {
            constants: &[
                "gloo/transport/tcp/pair.cc",
                "GLOO_SOCKET_IFNAME",
                "GLOO_DEVICE_TRANSPORT",
                "NCCL_DEBUG",
            ],
            symbols: &["_ZN4gloo9allreduceERNS_16AllreduceOptionsE"],
            ..Elf::default()
        };
        self.package("torch/lib/libtorch_cpu.so", cpu.to_bytes());
        let cuda = Elf {
            needed: &["libnccl.so.2", "libcupti.so.12"],
            rpath: "$ORIGIN/../../nvidia/nccl/lib",
            constants: &[
                "TORCH_NCCL_ASYNC_ERROR_HANDLING",
                "TORCH_NCCL_BLOCKING_WAIT",
                "TORCH_NCCL_DUMP_ON_TIMEOUT",
                "TORCH_NCCL_TRACE_BUFFER_SIZE",
                "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC",
            ],
            ..Elf::default()
        };
        self.package("torch/lib/libtorch_cuda.so", cuda.to_bytes());
        self.nccl("2.27.5");
        self.package("nvidia/cuda_cupti/lib/libcupti.so.12", Elf::default().to_bytes());
        self.package(
            "nvidia_cuda_cupti_cu12-12.6.80.dist-info/METADATA",
            "Version: 12.6.80\n",
        );
    }

    /// Writes a file of the Python packages.
    pub fn package(&self, path: &str, content: impl AsRef<[u8]>) {
        self.write(&format!("{PACKAGES}/{path}"), content);
    }

    /// Writes NCCL with this version.
    pub fn nccl(&self, version: &str) {
        self.package(NCCL, nccl(version));
    }

    fn add_driver(&self) {
        self.write("/sys/module/nvidia/version", "550.54.15\n");
        self.write(
            "/proc/driver/nvidia/params",
            "ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 0\n",
        );
        for number in 0..2 {
            self.write(&format!("/dev/nvidia{number}"), "");
        }
        self.write("/dev/nvidiactl", "");
        self.write("/dev/infiniband/uverbs0", "");
    }

    fn add_devices(&self) {
        for (slot, address, node) in [("01", "0000:17:00.0", 0), ("02", "0000:9b:00.0", 1)] {
            self.pci(slot, address, node, "0x030200", "0x10de", "32.0 GT/s PCIe");
            self.write(
                &format!("/proc/driver/nvidia/gpus/{address}/information"),
                "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 100\n",
            );
        }
        for (number, slot, address, node) in [(0, "03", "0000:18:00.0", 0), (1, "04", "0000:9c:00.0", 1)] {
            self.pci(slot, address, node, "0x020700", "0x15b3", "32.0 GT/s PCIe");
            let folder = format!("/sys/class/infiniband/mlx5_{number}");
            self.write(&format!("{folder}/hca_type"), "MT4129\n");
            let target = format!("../../../devices/pci0000:00/0000:00:{slot}.0/{address}");
            symlink(target, self.place(&format!("{folder}/device"))).expect("linked");
            for (name, text) in [
                ("state", "4: ACTIVE\n"),
                ("phys_state", "5: LinkUp\n"),
                ("rate", "400 Gb/sec (4X NDR)\n"),
                ("link_layer", "InfiniBand\n"),
            ] {
                self.write(&format!("{folder}/ports/1/{name}"), text);
            }
        }
        for (name, state, speed) in [
            ("lo", "unknown", ""),
            ("eth0", "up", "25000"),
            ("ib0", "up", "400000"),
        ] {
            self.write(&format!("/sys/class/net/{name}/operstate"), state);
            self.write(&format!("/sys/class/net/{name}/speed"), speed);
        }
    }

    /// Writes a PCI device behind a bridge, and the link to it.
    fn pci(&self, slot: &str, address: &str, node: u32, class: &str, vendor: &str, speed: &str) {
        let bridge = format!("{ROOT_PORT}/0000:00:{slot}.0");
        self.write(&format!("{bridge}/max_link_speed"), speed);
        self.write(&format!("{bridge}/max_link_width"), "16");
        let device = format!("{bridge}/{address}");
        for (name, text) in [
            ("class", class),
            ("vendor", vendor),
            ("numa_node", &node.to_string()),
            ("current_link_speed", speed),
            ("max_link_speed", speed),
            ("current_link_width", "16"),
            ("max_link_width", "16"),
        ] {
            self.write(&format!("{device}/{name}"), format!("{text}\n"));
        }
        fs::create_dir_all(self.place("/sys/bus/pci/devices")).expect("made");
        let target = format!("../../../devices/pci0000:00/0000:00:{slot}.0/{address}");
        symlink(target, self.place(&format!("/sys/bus/pci/devices/{address}"))).expect("linked");
    }

    /// Runs the doctor on this machine. Returns its exit status and its document.
    pub fn examine(&self, mut doctor: Command, options: &[&str]) -> (i32, Value) {
        doctor.env_clear();
        for (name, value) in &self.environment {
            doctor.env(name, value);
        }
        doctor
            .args(["doctor", "--json", "--sysroot"])
            .arg(self.root.path())
            .args(options);
        doctor.arg("--").args(&self.command);
        let output = doctor.output().expect("started");
        let text = String::from_utf8_lossy(&output.stdout);
        let document = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr)));
        (output.status.code().expect("a status"), document)
    }
}

/// Returns a file like NCCL's library, with its version and some names of variables.
pub fn nccl(version: &str) -> Vec<u8> {
    let version = format!("NCCL version {version}+cuda12.6");
    Elf {
        constants: &[
            &version,
            "NCCL_ALGO",
            "NCCL_BUFFSIZE",
            "NCCL_DEBUG",
            "NCCL_DEBUG_SUBSYS",
            "NCCL_IB_DISABLE",
            "NCCL_IB_GID_INDEX",
            "NCCL_IB_HCA",
            "NCCL_IB_RETRY_CNT",
            "NCCL_IB_TIMEOUT",
            "NCCL_MAX_NCHANNELS",
            "NCCL_MIN_NCHANNELS",
            "NCCL_NET",
            "NCCL_NTHREADS",
            "NCCL_NVLS_ENABLE",
            "NCCL_P2P_DISABLE",
            "NCCL_P2P_LEVEL",
            "NCCL_PROFILER_PLUGIN",
            "NCCL_PROTO",
            "NCCL_SHM_DISABLE",
            "NCCL_SOCKET_IFNAME",
        ],
        ..Elf::default()
    }
    .to_bytes()
}
