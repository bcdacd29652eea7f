//! Traffic of network interfaces and of InfiniBand ports.
//!
//! RDMA bypasses the counters of an interface, so the ports have counters of their own.

use super::samples::Samples;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of interfaces and ports that are sampled.
const MAX_LINKS: usize = 64;
/// `port_rcv_data` and `port_xmit_data` count units of four bytes (Documentation/ABI/stable/sysfs-class-infiniband).
const PORT_UNIT_BYTES: u64 = 4;

/// Bytes that an interface or port has moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Moved {
    received_bytes: u64,
    sent_bytes: u64,
}

/// Traffic until the last sample.
pub struct Network {
    root: PathBuf,
    before: BTreeMap<String, Moved>,
    /// Links that have moved bytes since the first sample. Idle ones get no counter.
    active: Vec<String>,
}

impl Network {
    /// Reads the traffic so far. `root` is the root of the file system.
    pub fn new(root: &Path) -> Self {
        Self {
            before: read(root),
            root: root.to_owned(),
            active: Vec::new(),
        }
    }

    /// Samples the traffic since the last sample.
    pub fn sample(&mut self, samples: &Samples) {
        self.moved(|name, moved| {
            let put = |direction: &[u8], bytes: u64| {
                samples.put_rate(&[b"network_", name.as_bytes(), direction], bytes as f64);
            };
            put(b"_received_bytes_per_s", moved.received_bytes);
            put(b"_sent_bytes_per_s", moved.sent_bytes);
        });
    }

    /// Calls `put` with what each active link has moved since the last call.
    fn moved(&mut self, mut put: impl FnMut(&str, Moved)) {
        let now = read(&self.root);
        for (name, link) in &now {
            let Some(before) = self.before.get(name) else {
                continue;
            };
            // A counter that was reset has no growth.
            let received = link.received_bytes.checked_sub(before.received_bytes);
            let sent = link.sent_bytes.checked_sub(before.sent_bytes);
            let (Some(received_bytes), Some(sent_bytes)) = (received, sent) else {
                continue;
            };
            let is_known = self.active.contains(name);
            if !is_known && received_bytes + sent_bytes > 0 {
                self.active.push(name.clone());
            } else if !is_known {
                continue;
            }
            put(
                name,
                Moved {
                    received_bytes,
                    sent_bytes,
                },
            );
        }
        self.before = now;
    }
}

fn read(root: &Path) -> BTreeMap<String, Moved> {
    let mut links = fs::read_to_string(root.join("proc/net/dev"))
        .map(|text| interfaces(&text))
        .unwrap_or_default();
    ports(&root.join("sys/class/infiniband"), &mut links);
    links
}

/// Reads `/proc/net/dev` (proc_pid_net(5)): two lines of headings, then one line per interface. The first number is the
/// received bytes, the ninth the sent bytes.
fn interfaces(text: &str) -> BTreeMap<String, Moved> {
    let lines = text.lines().skip(2).filter_map(|line| {
        let (name, numbers) = line.split_once(':')?;
        let mut numbers = numbers.split_whitespace().map(str::parse);
        let moved = Moved {
            received_bytes: numbers.next()?.ok()?,
            sent_bytes: numbers.nth(7)?.ok()?,
        };
        Some((name.trim().to_owned(), moved))
    });
    lines.take(MAX_LINKS).collect()
}

/// Adds the InfiniBand ports, as `DEVICE_PORT`.
fn ports(devices: &Path, links: &mut BTreeMap<String, Moved>) {
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    for device in entries(devices) {
        for port in entries(&device.path().join("ports")) {
            let counters = port.path().join("counters");
            let bytes = |name: &str| {
                let text = fs::read_to_string(counters.join(name)).ok()?;
                text.trim().parse::<u64>().ok()?.checked_mul(PORT_UNIT_BYTES)
            };
            let (Some(received_bytes), Some(sent_bytes)) = (bytes("port_rcv_data"), bytes("port_xmit_data"))
            else {
                continue;
            };
            if links.len() >= MAX_LINKS {
                return;
            }
            let (device, port) = (device.file_name(), port.file_name());
            let name = format!("{}_{}", device.to_string_lossy(), port.to_string_lossy());
            links.insert(
                name,
                Moved {
                    received_bytes,
                    sent_bytes,
                },
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADINGS: &str = "Inter-|   Receive                            |  Transmit\n \
                            face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets\n";

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("a file");
    }

    /// Writes a host by hand: an idle and a busy interface, and a port of InfiniBand.
    fn host(root: &Path, received: u64, sent: u64, port_sent: u64) {
        let dev = format!(
            "{HEADINGS}    lo: 7 1 0 0 0 0 0 0 7 1 0 0 0 0 0 0\n  eth0:{received} 1 0 0 0 0 0 0 {sent} 1 0 0 0 0 0 0\n"
        );
        put(root, "proc/net/dev", &dev);
        let counters = "sys/class/infiniband/mlx5_0/ports/1/counters";
        put(root, &format!("{counters}/port_rcv_data"), "0\n");
        put(
            root,
            &format!("{counters}/port_xmit_data"),
            &format!("{port_sent}\n"),
        );
    }

    fn moved(network: &mut Network) -> Vec<(String, u64, u64)> {
        let mut out = Vec::new();
        network.moved(|name, moved| out.push((name.to_owned(), moved.received_bytes, moved.sent_bytes)));
        out
    }

    #[test]
    fn links_that_move_bytes_are_sampled() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path();
        host(root, 1000, 500, 10);
        let mut network = Network::new(root);
        assert_eq!(moved(&mut network), [], "nothing has moved");
        host(root, 1300, 500, 15);
        let expected =
            [("eth0", 300, 0), ("mlx5_0_1", 0, 20)].map(|(name, one, two)| (name.to_owned(), one, two));
        assert_eq!(moved(&mut network), expected);
        host(root, 1300, 500, 15);
        let idle = [("eth0", 0, 0), ("mlx5_0_1", 0, 0)].map(|(name, one, two)| (name.to_owned(), one, two));
        assert_eq!(moved(&mut network), idle, "an idle interval is a sample");
        host(root, 20, 0, 16);
        let reset = [("mlx5_0_1".to_owned(), 0, 4)];
        assert_eq!(moved(&mut network), reset, "the interface was reset");
    }

    #[test]
    fn lines_that_are_not_understood_are_skipped() {
        let text = format!("{HEADINGS}  eth0: x 1\n  eth1: 5\n  eth2: 5 1 0 0 0 0 0 0 9 1\nrest");
        let expected = Moved {
            received_bytes: 5,
            sent_bytes: 9,
        };
        assert_eq!(interfaces(&text), BTreeMap::from([("eth2".to_owned(), expected)]));
    }
}
