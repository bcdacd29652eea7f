//! Traffic of network interfaces.
//!
//! RDMA bypasses these counters. Those of InfiniBand ports come from the device, which may take a minute to answer
//! ([`super`]).

use super::samples::{Interval, Samples};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of interfaces that are sampled.
const MAX_LINKS: usize = 16;
/// The loopback interface.
const LOOPBACK: &str = "lo";

/// Bytes that an interface has moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Moved {
    received_bytes: u64,
    sent_bytes: u64,
}

/// Traffic until the last sample.
pub struct Network {
    root: PathBuf,
    /// Interfaces that are sampled: those with a device, and the loopback, as they are at the start. Containers create and
    /// delete virtual ones all the time.
    before: BTreeMap<String, Moved>,
    /// Interfaces that have moved bytes since the first sample. Idle ones get no counter.
    active: Vec<String>,
    interval: Interval,
}

impl Network {
    /// Reads the traffic so far. `root` is the root of the file system.
    pub fn new(root: &Path) -> Self {
        let all = read(root);
        let has_device = |name: &String| root.join("sys/class/net").join(name).join("device").exists();
        let mut links: BTreeMap<String, Moved> = all
            .iter()
            .filter(|(name, _)| *name == LOOPBACK || has_device(name))
            .map(|(name, moved)| (name.clone(), *moved))
            .take(MAX_LINKS)
            .collect();
        if !links.keys().any(|name| name != LOOPBACK) {
            // A container has virtual interfaces only.
            links.extend(all.into_iter().take(MAX_LINKS));
        }
        Self {
            before: links,
            root: root.to_owned(),
            active: Vec::new(),
            interval: Interval::begin(),
        }
    }

    /// Samples the traffic since the last sample.
    pub fn sample(&mut self, samples: &Samples) {
        let now = read(&self.root);
        let past = self.interval.end();
        self.moved(&now, |name, moved| {
            let put = |direction: &[u8], bytes: u64| {
                samples.put_rate(&[b"network_", name.as_bytes(), direction], bytes as f64, &past);
            };
            put(b"_received_bytes_per_s", moved.received_bytes);
            put(b"_sent_bytes_per_s", moved.sent_bytes);
        });
    }

    /// Calls `put` with what each active interface has moved since the last call.
    fn moved(&mut self, now: &BTreeMap<String, Moved>, mut put: impl FnMut(&str, Moved)) {
        for (name, before) in &mut self.before {
            let Some(&link) = now.get(name) else { continue };
            // A counter that was reset has no growth.
            let received = link.received_bytes.checked_sub(before.received_bytes);
            let sent = link.sent_bytes.checked_sub(before.sent_bytes);
            *before = link;
            let (Some(received_bytes), Some(sent_bytes)) = (received, sent) else {
                continue;
            };
            if !self.active.contains(name) {
                if received_bytes == 0 && sent_bytes == 0 {
                    continue;
                }
                self.active.push(name.clone());
            }
            put(
                name,
                Moved {
                    received_bytes,
                    sent_bytes,
                },
            );
        }
    }
}

/// Reads `/proc/net/dev` (proc_pid_net(5)): two lines of headings, then one line per interface. The first number is the
/// received bytes, the ninth the sent bytes.
fn read(root: &Path) -> BTreeMap<String, Moved> {
    let text = fs::read_to_string(root.join("proc/thread-self/net/dev")).unwrap_or_default();
    let lines = text.lines().skip(2).filter_map(|line| {
        let (name, numbers) = line.split_once(':')?;
        let mut numbers = numbers.split_whitespace().map(str::parse);
        let moved = Moved {
            received_bytes: numbers.next()?.ok()?,
            sent_bytes: numbers.nth(7)?.ok()?,
        };
        Some((name.trim().to_owned(), moved))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADINGS: &str = "Inter-|   Receive                            |  Transmit\n \
                            face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets\n";

    /// Writes a host by hand. A device belongs to `eth0` and `ib0`.
    fn host(root: &Path, links: &[(&str, u64, u64)]) {
        let line = |(name, received, sent): &(&str, u64, u64)| {
            format!("  {name}:{received} 1 0 0 0 0 0 0 {sent} 1 0 0 0 0 0 0\n")
        };
        let lines: String = links.iter().map(line).collect();
        fs::create_dir_all(root.join("proc/thread-self/net")).expect("a directory");
        fs::write(
            root.join("proc/thread-self/net/dev"),
            format!("{HEADINGS}{lines}"),
        )
        .expect("a file");
        for device in ["eth0", "ib0"] {
            fs::create_dir_all(root.join("sys/class/net").join(device).join("device")).expect("a directory");
        }
    }

    fn moved(network: &mut Network) -> Vec<(String, u64, u64)> {
        let mut out = Vec::new();
        let now = read(&network.root);
        network.moved(&now, |name, moved| {
            out.push((name.to_owned(), moved.received_bytes, moved.sent_bytes));
        });
        out
    }

    fn expected<const N: usize>(links: [(&str, u64, u64); N]) -> Vec<(String, u64, u64)> {
        links
            .map(|(name, received, sent)| (name.to_owned(), received, sent))
            .into()
    }

    #[test]
    fn interfaces_that_move_bytes_are_sampled() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path();
        host(
            root,
            &[("lo", 7, 7), ("eth0", 1000, 500), ("ib0", 0, 10), ("veth7", 5, 5)],
        );
        let mut network = Network::new(root);
        assert_eq!(moved(&mut network), [], "nothing has moved");
        host(
            root,
            &[
                ("lo", 7, 7),
                ("eth0", 1300, 500),
                ("ib0", 0, 15),
                ("veth7", 99, 99),
            ],
        );
        assert_eq!(moved(&mut network), expected([("eth0", 300, 0), ("ib0", 0, 5)]));
        assert_eq!(
            moved(&mut network),
            expected([("eth0", 0, 0), ("ib0", 0, 0)]),
            "an idle interval is a sample"
        );
        host(root, &[("eth0", 20, 0), ("ib0", 0, 16), ("veth8", 500, 500)]);
        assert_eq!(
            moved(&mut network),
            expected([("ib0", 0, 1)]),
            "the interface was reset"
        );
    }

    #[test]
    fn a_container_without_devices_has_its_virtual_interfaces() {
        let directory = tempfile::tempdir().expect("a directory");
        host(directory.path(), &[("lo", 1, 1), ("virtual0", 10, 20)]);
        let mut network = Network::new(directory.path());
        host(directory.path(), &[("lo", 1, 1), ("virtual0", 11, 22)]);
        assert_eq!(moved(&mut network), expected([("virtual0", 1, 2)]));
    }

    #[test]
    fn lines_that_are_not_understood_are_skipped() {
        let directory = tempfile::tempdir().expect("a directory");
        host(directory.path(), &[("eth2", 5, 9)]);
        let path = directory.path().join("proc/thread-self/net/dev");
        let text = fs::read_to_string(&path).expect("a file") + "  eth0: x 1\n  eth1: 5\nrest";
        fs::write(path, text).expect("a file");
        let expected = Moved {
            received_bytes: 5,
            sent_bytes: 9,
        };
        assert_eq!(
            read(directory.path()),
            BTreeMap::from([("eth2".to_owned(), expected)])
        );
    }
}
