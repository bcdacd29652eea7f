//! Tests `rankscope doctor` on prepared machines, each broken in one way, and on this machine.

mod doctor_support;
mod launch_support;

use doctor_support::elf::Elf;
use doctor_support::machine::{LOADER, Machine, NCCL, PACKAGES, nccl};
use launch_support::{program, text};
use rankscope_ranklog::clock::{Calibration, Counter};
use rankscope_ranklog::definition::{KIND_PROPERTY, Payload};
use rankscope_ranklog::writer::LogWriter;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the doctor with a library that needs an old glibc.
fn doctor(library: &Path) -> Command {
    let directory = library.parent().expect("a directory").to_path_buf();
    let mut command = Command::new("/usr/bin/env");
    command.arg(format!("RANKSCOPE_LIBRARY={}", library.display()));
    command.arg("RANKSCOPE_MIN_FREE_MIB=0");
    command.arg(format!("RANKSCOPE_LIVE_DIR={}", directory.display()));
    command.arg(env!("CARGO_BIN_EXE_rankscope"));
    command
}

/// A library to preload that needs this version of glibc.
fn library(directory: &Path, glibc: &str) -> PathBuf {
    let path = directory.join("librankscope.so");
    let needs = format!("GLIBC_{glibc}");
    let elf = Elf {
        symbols: &["GLIBC_2.17", &needs],
        ..Elf::default()
    };
    fs::write(&path, elf.to_bytes()).expect("written");
    path
}

/// Returns the results of at least this severity, as `id severity`.
fn found(document: &Value, severities: &[&str]) -> Vec<String> {
    let checks = document["checks"].as_array().expect("a list").iter();
    checks
        .filter(|check| severities.contains(&check["severity"].as_str().expect("a severity")))
        .map(|check| {
            format!(
                "{} {}",
                check["severity"].as_str().expect("text"),
                check["id"].as_str().expect("text")
            )
        })
        .collect()
}

#[test]
fn a_sound_machine_has_no_warning() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let library = library(directory.path(), "2.28");
    let (status, document) = Machine::sound().examine(doctor(&library), &["--fail-on", "warn"]);
    assert_eq!(
        found(&document, &["warn", "bad", "note"]),
        [""; 0],
        "{document:#}"
    );
    assert_eq!(status, 0);
    // The absence of warnings must not be an absence of facts.
    for id in [
        "source-gloo",
        "source-c10d",
        "source-nccl",
        "source-plugin",
        "source-cupti",
        "source-nvtx",
        "clock",
        "shm",
        "driver",
        "glibc",
        "pcie",
        "rdma-port",
        "group-memory",
        "interfaces",
        "numa",
    ] {
        assert!(
            found(&document, &["ok"]).contains(&format!("ok {id}")),
            "{id}: {document:#}"
        );
    }
    assert_eq!(document["topology"]["gpus"].as_array().map(Vec::len), Some(2));
    assert_eq!(document["topology"]["numa_distances"][0][1], 21);
}

/// A way to break the machine, and the result that names it.
type Case = (&'static str, fn(&mut Machine));

const GPU: &str = "/sys/devices/pci0000:00/0000:00:01.0/0000:17:00.0";
const ADAPTER: &str = "/sys/devices/pci0000:00/0000:00:03.0/0000:18:00.0";
const PORT: &str = "/sys/class/infiniband/mlx5_0/ports/1";

fn runs(machine: &mut Machine, words: &[&str]) {
    machine.command = words.iter().map(|word| (*word).to_owned()).collect();
}

fn faults() -> Vec<Case> {
    vec![
        ("bad command-not-found", |machine| {
            runs(machine, &["no-such-command"])
        }),
        ("bad program-static", |machine| {
            machine.program("/opt/tool", Elf::default().to_bytes(), 0o755);
            runs(machine, &["/opt/tool"]);
        }),
        ("bad program-other-libc", |machine| {
            let musl = Elf {
                interpreter: "/lib/ld-musl-x86_64.so.1",
                ..Elf::default()
            };
            machine.program("/opt/venv/bin/python3", musl.to_bytes(), 0o755);
        }),
        ("bad program-other-machine", |machine| {
            let arm = Elf {
                interpreter: LOADER,
                machine: 40,
                ..Elf::default()
            };
            machine.program("/opt/venv/bin/python3", arm.to_bytes(), 0o755);
        }),
        ("bad program-privileged", |machine| {
            let dynamic = Elf {
                interpreter: LOADER,
                ..Elf::default()
            };
            machine.program("/opt/venv/bin/python3", dynamic.to_bytes(), 0o4755);
        }),
        ("bad program-not-found", |machine| {
            machine.program("/opt/venv/bin/torchrun", "#!/usr/bin/python3.9\n", 0o755);
        }),
        ("warn environment-cleared", |machine| {
            runs(machine, &["env", "-i", "python3", "train.py"]);
        }),
        ("warn environment-cleared", |machine| {
            runs(
                machine,
                &["srun", "--export=NONE", "-n", "8", "python3", "train.py"],
            );
        }),
        ("note runs-elsewhere", |machine| {
            runs(machine, &["ssh", "node1", "python3", "train.py"]);
        }),
        ("note shell-script", |machine| {
            runs(machine, &["bash", "-c", "./start --all"]);
        }),
        ("note script-line", |machine| {
            runs(machine, &["bash", "-c", "A=1 python3 train.py"]);
        }),
        ("note variables-not-forwarded", |machine| {
            runs(machine, &["mpirun", "-np", "2", "python3", "train.py"]);
        }),
        ("bad glibc-too-old", |machine| {
            let old = Elf {
                symbols: &["GLIBC_2.2.5", "GLIBC_2.17"],
                ..Elf::default()
            };
            machine.write("/lib/x86_64-linux-gnu/libc.so.6", old.to_bytes());
        }),
        ("warn glibc-missing", |machine| {
            machine.remove("/lib/x86_64-linux-gnu/libc.so.6")
        }),
        ("note preload-others", |machine| {
            machine.write("/opt/other.so", "");
            machine.set("LD_PRELOAD", "/opt/other.so");
        }),
        ("warn no-communication-library", |machine| {
            machine.remove(PACKAGES)
        }),
        ("warn several-versions", |machine| {
            machine.write("/opt/nccl/lib/libnccl.so.2", nccl("2.21.5"));
            machine.set("LD_LIBRARY_PATH", "/opt/nccl/lib");
        }),
        ("warn gloo-hidden", |machine| {
            let hidden = Elf {
                constants: &["gloo/transport/tcp/pair.cc"],
                ..Elf::default()
            };
            machine.package("torch/lib/libtorch_cpu.so", hidden.to_bytes());
        }),
        ("note mpi-invisible", |machine| {
            machine.write("/lib/x86_64-linux-gnu/libmpi.so.40", Elf::default().to_bytes());
        }),
        ("warn torch-untested", |machine| {
            machine.package("torch/version.py", "__version__ = '1.12.1'\n");
        }),
        ("warn nccl-untested", |machine| machine.nccl("2.16.2")),
        ("note no-device-times", |machine| machine.nccl("2.21.5")),
        ("warn nccl-static", |machine| {
            machine.remove(&format!("{PACKAGES}/{NCCL}"));
            let linked = Elf {
                constants: &["NCCL version 2.20.5+cuda12.4"],
                ..Elf::default()
            };
            machine.package("torch/lib/libtorch_cuda.so", linked.to_bytes());
        }),
        ("warn plugin-taken", |machine| {
            machine.write("/etc/nccl.conf", "NCCL_PROFILER_PLUGIN=none\n")
        }),
        ("note no-cupti", |machine| {
            machine.remove(&format!("{PACKAGES}/nvidia/cuda_cupti"))
        }),
        ("warn clock-slow", |machine| {
            machine.write(
                "/sys/devices/system/clocksource/clocksource0/current_clocksource",
                "hpet\n",
            );
        }),
        ("note clock-no-counter", |machine| {
            machine.write(
                "/sys/devices/system/clocksource/clocksource0/current_clocksource",
                "kvm-clock\n",
            );
        }),
        ("warn shm-small", |machine| {
            machine.edit("/proc/mounts", "size=67108864k", "size=65536k")
        }),
        ("warn shm-missing", |machine| machine.remove("/dev/shm")),
        ("warn few-open-files", |machine| {
            machine.edit(
                "/proc/self/limits",
                "files            65536",
                "files            256  ",
            );
        }),
        ("warn few-processes", |machine| {
            machine.edit(
                "/proc/self/limits",
                "processes             514000",
                "processes             512   ",
            );
        }),
        ("warn little-locked-memory", |machine| {
            machine.edit(
                "/proc/self/limits",
                "memory         unlimited",
                "memory         65536    ",
            );
        }),
        ("warn group-memory-full", |machine| {
            machine.write("/sys/fs/cgroup/user.slice/memory.current", "1090000000000\n");
        }),
        ("note host-name-loopback", |machine| {
            machine.edit("/etc/hosts", "10.0.0.7", "127.0.1.1");
        }),
        ("note container", |machine| machine.write("/.dockerenv", "")),
        ("warn driver-missing", |machine| {
            machine.remove("/sys/module/nvidia/version")
        }),
        ("warn gpu-files-missing", |machine| {
            machine.remove("/dev/nvidia0");
            machine.remove("/dev/nvidia1");
        }),
        ("note profiling-restricted", |machine| {
            machine.edit("/proc/driver/nvidia/params", "AdminOnly: 0", "AdminOnly: 1");
        }),
        ("warn pcie-narrow", |machine| {
            machine.write(&format!("{GPU}/current_link_width"), "8\n")
        }),
        ("note pcie-slow", |machine| {
            machine.write(&format!("{GPU}/current_link_speed"), "2.5 GT/s PCIe\n")
        }),
        ("warn pcie-slow", |machine| {
            machine.write(&format!("{ADAPTER}/current_link_speed"), "8.0 GT/s PCIe\n")
        }),
        ("note pcie-slot", |machine| {
            machine.write("/sys/devices/pci0000:00/0000:00:01.0/max_link_width", "8\n");
            machine.write(&format!("{GPU}/current_link_width"), "8\n");
        }),
        ("warn gpu-far-from-adapter", |machine| {
            machine.write(
                "/sys/devices/pci0000:00/0000:00:04.0/0000:9c:00.0/numa_node",
                "0\n",
            );
        }),
        ("warn rdma-port-down", |machine| {
            machine.write(&format!("{PORT}/state"), "1: DOWN\n")
        }),
        ("warn rdma-port-slow", |machine| {
            machine.write(&format!("{PORT}/rate"), "200 Gb/sec (4X HDR)\n")
        }),
        ("warn rdma-port-narrow", |machine| {
            // No other port is of this model, so no rate is compared.
            machine.write("/sys/class/infiniband/mlx5_0/hca_type", "MT4123\n");
            machine.write(&format!("{PORT}/rate"), "50 Gb/sec (1X HDR)\n");
        }),
        ("warn rdma-files-missing", |machine| {
            machine.remove("/dev/infiniband")
        }),
        ("warn variable-unknown", |machine| {
            machine.write("/etc/nccl.conf", "NCCL_MIN_CHANNELS=4\n")
        }),
        ("warn interface-down", |machine| {
            machine.write("/sys/class/net/eth0/operstate", "down\n");
            machine.set("NCCL_SOCKET_IFNAME", "eth");
        }),
        ("warn nvls-unsupported", |machine| {
            machine.set("NCCL_NVLS_ENABLE", "1");
            for address in ["0000:17:00.0", "0000:9b:00.0"] {
                let path = format!("/proc/driver/nvidia/gpus/{address}/information");
                machine.edit(&path, "H100 80GB HBM3", "A100-SXM4-80GB");
            }
        }),
    ]
}

/// Variables that are wrong together, and the result that names them.
const WRONG_VARIABLES: &[(&str, &[(&str, &str)])] = &[
    ("warn preload-missing", &[("LD_PRELOAD", "/opt/gone.so")]),
    ("warn plugin-taken", &[("NCCL_PROFILER_PLUGIN", "/opt/other.so")]),
    (
        "warn cupti-taken",
        &[("CUDA_INJECTION64_PATH", "/opt/nsys/inject.so")],
    ),
    ("note kineto-daemon", &[("KINETO_USE_DAEMON", "1")]),
    ("note nvtx-off", &[("NVTX_INJECTION64_PATH", "./.")]),
    ("warn variable-unknown", &[("NCCL_THREADS", "512")]),
    ("warn variable-unknown", &[("GLOO_SOCKET_IFNAMES", "eth0")]),
    ("warn variable-renamed", &[("NCCL_ASYNC_ERROR_HANDLING", "1")]),
    ("warn interface-missing", &[("NCCL_SOCKET_IFNAME", "enp1s0")]),
    ("warn interface-missing", &[("GLOO_SOCKET_IFNAME", "eth")]),
    ("note interface-loopback", &[("GLOO_SOCKET_IFNAME", "lo")]),
    ("warn adapter-missing", &[("NCCL_IB_HCA", "=mlx5_4:1")]),
    (
        "warn contradiction-ib",
        &[("NCCL_IB_DISABLE", "1"), ("NCCL_IB_HCA", "mlx5")],
    ),
    ("warn ib-disabled", &[("NCCL_IB_DISABLE", "1")]),
    (
        "warn contradiction-p2p",
        &[("NCCL_P2P_DISABLE", "1"), ("NCCL_P2P_LEVEL", "NVL")],
    ),
    ("warn p2p-disabled", &[("NCCL_P2P_DISABLE", "1")]),
    (
        "warn no-local-transport",
        &[("NCCL_P2P_DISABLE", "1"), ("NCCL_SHM_DISABLE", "1")],
    ),
    (
        "warn contradiction-net",
        &[("NCCL_NET", "IB"), ("NCCL_IB_DISABLE", "1")],
    ),
    (
        "warn contradiction-net",
        &[("NCCL_NET", "Socket"), ("NCCL_IB_HCA", "mlx5_0")],
    ),
    (
        "warn contradiction-channels",
        &[("NCCL_MIN_NCHANNELS", "16"), ("NCCL_MAX_NCHANNELS", "8")],
    ),
    ("warn value-unknown", &[("NCCL_ALGO", "Rings")]),
    ("warn value-unknown", &[("NCCL_PROTO", "LL256")]),
    ("warn value-unknown", &[("NCCL_DEBUG", "1")]),
    ("warn value-out-of-range", &[("NCCL_IB_TIMEOUT", "3600")]),
    ("warn value-out-of-range", &[("NCCL_IB_RETRY_CNT", "8")]),
    (
        "warn contradiction-wait",
        &[
            ("TORCH_NCCL_BLOCKING_WAIT", "1"),
            ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
        ],
    ),
    ("warn blocking-wait", &[("TORCH_NCCL_BLOCKING_WAIT", "1")]),
    (
        "warn contradiction-dump",
        &[
            ("TORCH_NCCL_DUMP_ON_TIMEOUT", "1"),
            ("TORCH_NCCL_TRACE_BUFFER_SIZE", "0"),
        ],
    ),
    ("warn launch-blocking", &[("CUDA_LAUNCH_BLOCKING", "1")]),
    ("warn distributed-debug", &[("TORCH_DISTRIBUTED_DEBUG", "DETAIL")]),
    ("note nccl-debug", &[("NCCL_DEBUG", "INFO")]),
    ("warn nccl-debug-costs", &[("NCCL_DEBUG", "TRACE")]),
    (
        "warn nccl-debug-costs",
        &[("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "COLL")],
    ),
];

#[test]
fn each_fault_is_named_and_nothing_else() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let library = library(directory.path(), "2.28");
    let mut wrong = Vec::new();
    let broken = faults().into_iter().map(|(expected, break_it)| {
        let mut machine = Machine::sound();
        break_it(&mut machine);
        (expected, machine)
    });
    let with_variables = WRONG_VARIABLES.iter().map(|(expected, variables)| {
        let mut machine = Machine::sound();
        for (name, value) in *variables {
            machine.set(name, value);
        }
        (*expected, machine)
    });
    for (at, (expected, machine)) in broken.chain(with_variables).enumerate() {
        let (status, document) = machine.examine(doctor(&library), &["--fail-on", "warn"]);
        let severity = expected.split(' ').next().expect("a severity");
        // Where the fault is only a note, it is expected beside no warning.
        let severities: &[&str] = if severity == "note" {
            &["bad", "warn", "note"]
        } else {
            &["bad", "warn"]
        };
        let named = found(&document, severities);
        let expected_status = match severity {
            "bad" => 2,
            "warn" => 1,
            _ => 0,
        };
        if named != [expected] || status != expected_status {
            wrong.push(format!("{at}: {expected}: {named:?}, status {status}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_nearest_name_and_the_origin_are_printed() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let library = library(directory.path(), "2.28");
    let mut machine = Machine::sound();
    machine.set("NCCL_THREADS", "512");
    machine.set("NCCL_VERSION", "2.27.5");
    machine.set("NCCL_GIB_SOMETHING", "1");
    machine.write("/etc/nccl.conf", "# a comment\nNCCL_P2P_LEVELS=NVL\n");
    let (_, document) = machine.examine(doctor(&library), &[]);
    let checks = document["checks"].as_array().expect("a list");
    let shown: Vec<String> = checks
        .iter()
        .filter(|check| check["id"] == "variable-unknown")
        .map(|check| format!("{} | {}", check["title"], check["advice"]))
        .collect();
    assert_eq!(
        shown,
        [
            "\"NCCL 2.27.5 does not read NCCL_P2P_LEVELS (set in /etc/nccl.conf)\" | \"the nearest name that is read is \
             NCCL_P2P_LEVEL\"",
            "\"NCCL 2.27.5 does not read NCCL_THREADS\" | \"the nearest name that is read is NCCL_NTHREADS\""
        ]
    );
}

#[test]
fn this_machine_is_examined_with_and_without_a_command() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let here = directory.path();
    fs::write(
        here.join("train.py"),
        "#!/usr/bin/env python3\nopen('was-run', 'w')\n",
    )
    .expect("written");
    // Its name begins like that of an interpreter. The doctor runs those, and no script of the user.
    let job = here.join("python_job.sh");
    fs::write(&job, "#!/bin/sh\ncd \"$(dirname \"$0\")\" && touch was-run\n").expect("written");
    fs::set_permissions(&job, fs::Permissions::from_mode(0o755)).expect("changed");
    fs::write(here.join("static"), Elf::default().to_bytes()).expect("written");
    let arm = Elf {
        interpreter: LOADER,
        machine: 40,
        ..Elf::default()
    };
    fs::write(here.join("arm"), arm.to_bytes()).expect("written");
    fs::write(here.join("no-elf"), b"\x7fELF\x02\x01").expect("written");
    for (words, status, expected) in [
        (vec![], 0, "preloads"),
        (vec!["--", "sh", "-c", "x"], 0, "is a shell"),
        (vec!["--", "sh", "-c", "cd /; exec ./static x"], 0, "is a shell"),
        (
            vec!["--", "sh", "-c", "A=1 python3 train.py"],
            0,
            "      python3 train.py",
        ),
        (vec!["--", "env", "A=1", "ls"], 0, "followed env → ls"),
        (vec!["--", "./python_job.sh"], 0, "is a shell"),
        (vec!["--", "./static"], 2, "statically linked"),
        (vec!["--", "./arm"], 2, "not a 64-bit program for this machine"),
        (vec!["--", "./no-elf"], 0, "can be preloaded"),
        (vec!["no-such-run"], 2, "rankscope doctor -- no-such-run"),
    ] {
        let output = program()
            .arg("doctor")
            .args(&words)
            .current_dir(here)
            .env("RANKSCOPE_LIVE_DIR", here)
            .output()
            .expect("started");
        let all = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{words:?}: {all}");
        assert!(!here.join("was-run").exists(), "{words:?}");
        assert!(all.contains(expected), "{words:?}: {all}");
    }
}

#[test]
fn the_schema_has_every_field() {
    let output = program().args(["doctor", "--schema"]).output().expect("started");
    let schema: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let output = program().args(["doctor", "--json"]).output().expect("started");
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let known = schema["properties"].as_object().expect("fields");
    for name in document.as_object().expect("fields").keys() {
        assert!(known[name]["description"].is_string(), "{name} is not documented");
    }
}

/// Writes a log with these properties.
fn log(directory: &Path, rank: u32, pairs: &[(&str, &str)]) {
    let mut log =
        LogWriter::new(Vec::new(), Counter::MonotonicRaw, u64::from(rank) + 1, rank + 100).expect("memory");
    let rank_text = rank.to_string();
    let own = [("host", "node0"), ("env.RANK", rank_text.as_str())];
    let definitions: Vec<_> = own
        .iter()
        .chain(pairs)
        .map(|(key, value)| (KIND_PROPERTY, Payload::property(key, value.as_bytes())))
        .collect();
    log.definitions(&definitions).expect("memory");
    let calibration = Calibration {
        ticks: 5,
        ..Calibration::default()
    };
    log.calibrations(&[calibration]).expect("memory");
    let bytes = log.end().expect("memory");
    fs::write(directory.join(format!("node0-{rank}-1.rslog")), bytes).expect("written");
}

#[test]
fn ranks_of_a_run_are_compared() {
    let examine = |write: &dyn Fn(&Path)| {
        let run = tempfile::tempdir().expect("a temporary directory");
        write(run.path());
        let output = program()
            .args(["doctor", "--json", "--fail-on", "warn"])
            .arg(run.path())
            .output()
            .expect("started");
        let document: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
        (output.status.code().expect("a status"), document)
    };
    let sound = [
        ("library.nccl.version", "2.28.9"),
        ("source.nccl_plugin", "5"),
        ("env.NCCL_SOCKET_IFNAME", "eth0"),
        ("env.CUDA_VISIBLE_DEVICES", "0"),
    ];
    let (status, document) = examine(&|run| (0..4).for_each(|rank| log(run, rank, &sound)));
    assert_eq!(
        found(&document, &["warn", "bad", "note"]),
        [""; 0],
        "{document:#}"
    );
    assert_eq!(status, 0);

    for (at, value, expected) in [
        (0, "2.27.3", "warn ranks-nccl"),
        (1, "4", "warn ranks-plugin"),
        (2, "ib0", "warn ranks-variable"),
    ] {
        let (status, document) = examine(&|run| {
            for rank in 0..4 {
                let mut pairs = sound;
                if rank == 2 {
                    pairs[at].1 = value;
                }
                log(run, rank, &pairs);
            }
        });
        assert_eq!(found(&document, &["warn", "bad", "note"]), [expected]);
        assert_eq!(status, 1);
        let named = document["checks"].to_string();
        assert!(named.contains(&format!("{value}: rank 2")), "{document:#}");
    }

    let (_, document) = examine(&|run| {
        let odd = [("env.NCCL_IB_DISABLE", "1"), ("env.NCCL_IB_HCA", "mlx5")];
        (0..2).for_each(|rank| log(run, rank, &odd));
    });
    assert_eq!(found(&document, &["warn", "bad"]), ["warn contradiction-ib"]);
    let (_, document) = examine(&|run| {
        let old = [
            ("library.nccl.version", "2.28.9"),
            ("env.NCCL_WORK_FIFO_DEPTH", "64"),
        ];
        (0..2).for_each(|rank| log(run, rank, &old));
    });
    assert_eq!(found(&document, &["warn", "bad"]), ["warn variable-unknown"]);
    let (status, document) =
        examine(&|run| fs::write(run.join("node0-1-1.rslog"), "no log").expect("written"));
    assert_eq!(found(&document, &["bad"]), ["bad no-logs"], "{document:#}");
    assert_eq!(status, 2);
}
