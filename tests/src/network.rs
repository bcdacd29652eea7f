//! Several hosts on one machine: network namespaces, joined by a router that delays packets.
//!
//! Each host has a network namespace with a TUN device. All packets sent into it arrive at the router, a thread of the
//! test. The router forwards a packet when the link's delay is over, in order per direction and at most at the link's
//! rate. (`tc netem` would do the same on kernels that have it.) Namespaces are held by descriptors only, so nothing
//! remains after a test, however it ends.
//!
//! Hosts here share one kernel and therefore one clock: all timestamps are of one clock. That is what a test of clocks
//! needs.

use std::collections::VecDeque;
use std::ffi::c_ulong;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::skip;

/// Name of each host's device towards the router.
pub const DEVICE: &str = "rs0";
/// Largest packet, in bytes: jumbo frames, so that the router's own work stays small.
const MTU_BYTES: usize = 9000;
/// Maximum number of packets that wait in a device for the router.
const DEVICE_QUEUE: i32 = 10_000;
/// Maximum number of bytes in flight in one direction. On overflow the router drops packets, as a real one does.
const MAX_UNDER_WAY_BYTES: usize = 64 << 20;

/// One direction between two hosts.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Minimum delay of a packet.
    pub least_delay: Duration,
    /// Mean of the additional delay, which is exponentially distributed. Packets stay in order.
    pub mean_jitter: Duration,
    /// Rate at which packets leave one after the other. `None`: unlimited.
    pub bytes_per_second: Option<u64>,
}

/// Counters of the router.
#[derive(Debug, Default)]
pub struct Counts {
    /// Forwarded packets.
    pub passed: AtomicU64,
    /// Packets that exceeded the capacity or had no destination.
    pub dropped: AtomicU64,
}

#[derive(Debug)]
struct Host {
    namespace: OwnedFd,
}

/// Hosts and their router, until dropped.
#[derive(Debug)]
pub struct Network {
    hosts: Vec<Host>,
    counts: Arc<Counts>,
    /// Writing to it stops the router.
    stop: File,
    router: Option<JoinHandle<()>>,
}

impl Network {
    /// Makes this many hosts. `link` describes the direction from one host to another. Skips and returns `None` if this
    /// machine allows no namespaces.
    ///
    /// # Panics
    /// If a namespace can be made but not used.
    pub fn new(hosts: usize, seed: u64, link: impl Fn(usize, usize) -> Link) -> Option<Network> {
        let mut made = Vec::new();
        for host in 0..hosts {
            match std::thread::spawn(move || host_of_its_own(host)).join() {
                Ok(Ok(host)) => made.push(host),
                Ok(Err(error)) if is_forbidden(&error) => {
                    skip(&format!(
                        "network namespaces with TUN devices (they need root): {error}"
                    ));
                    return None;
                }
                Ok(Err(error)) => panic!("a network namespace: {error}"),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        let (hosts, devices): (Vec<Host>, Vec<File>) = made.into_iter().unzip();
        let counts = Arc::new(Counts::default());
        let (wakes, stop) = pipe().unwrap_or_else(|error| panic!("a pipe: {error}"));
        let directions = (0..hosts.len())
            .map(|from| {
                (0..hosts.len())
                    .map(|to| Direction::new(link(from, to)))
                    .collect()
            })
            .collect();
        let mut router = Router {
            devices,
            directions,
            random: seed | 1,
            counts: Arc::clone(&counts),
        };
        let router = std::thread::Builder::new()
            .name("router".to_owned())
            .spawn(move || {
                be_punctual();
                router.run(&wakes);
            })
            .unwrap_or_else(|error| panic!("the router's thread: {error}"));
        Some(Network {
            hosts,
            counts,
            stop,
            router: Some(router),
        })
    }

    /// Returns the address of a host.
    pub fn address(host: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, 0, 1 + host as u8)
    }

    /// Makes a command run on a host.
    pub fn place(&self, host: usize, command: &mut Command) {
        let namespace = self.hosts[host].namespace.as_raw_fd();
        // SAFETY: between fork and exec the closure only calls setns, a system call. If the network is dropped before
        // the command starts, the descriptor is no namespace's, and the start fails.
        unsafe {
            command.pre_exec(move || enter(namespace));
        }
    }

    /// Runs a closure on a host. Sockets that it makes belong to that host permanently.
    ///
    /// # Panics
    /// If the closure does.
    pub fn on<T: Send>(&self, host: usize, run: impl FnOnce() -> T + Send) -> T {
        let namespace = self.hosts[host].namespace.as_raw_fd();
        let run = move || {
            enter(namespace).unwrap_or_else(|error| panic!("setns: {error}"));
            run()
        };
        std::thread::scope(|scope| scope.spawn(run).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Returns the router's counters.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // The write fails only if the router has ended.
        let _ = self.stop.write_all(&[0]);
        if let Some(router) = self.router.take() {
            let _ = router.join();
        }
    }
}

fn is_forbidden(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EPERM | libc::EACCES | libc::ENOENT | libc::ENODEV | libc::ENOSYS | libc::EINVAL)
    )
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn enter(namespace: libc::c_int) -> io::Result<()> {
    // SAFETY: the system call accesses no memory.
    checked(unsafe { libc::setns(namespace, libc::CLONE_NEWNET) }).map(drop)
}

fn pipe() -> io::Result<(File, File)> {
    let mut ends = [0; 2];
    // SAFETY: pipe2 writes two descriptors into an array of two, and nothing else owns them.
    unsafe {
        checked(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC))?;
        Ok((File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])))
    }
}

/// Makes a namespace and the router's end of its device. Runs on a thread that ends afterwards.
fn host_of_its_own(host: usize) -> io::Result<(Host, File)> {
    // SAFETY: the system call accesses no memory and moves only this thread.
    checked(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
    let namespace = File::open("/proc/thread-self/ns/net")?.into();
    let device = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")?;
    let mut request = named(DEVICE);
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    control(
        device.as_fd().as_raw_fd(),
        libc::TUNSETIFF as c_ulong,
        &mut request,
    )?;

    // SAFETY: the system call accesses no memory, and nothing else owns the descriptor.
    let socket = unsafe {
        let socket = checked(libc::socket(
            libc::AF_INET,
            libc::SOCK_DGRAM | libc::SOCK_CLOEXEC,
            0,
        ))?;
        OwnedFd::from_raw_fd(socket)
    };
    let set = |name: &str, what: libc::Ioctl, fill: &dyn Fn(&mut libc::ifreq)| {
        let mut request = named(name);
        fill(&mut request);
        control(socket.as_raw_fd(), what as c_ulong, &mut request)
    };
    let [address, mask] = [Network::address(host), Ipv4Addr::new(255, 255, 255, 0)].map(socket_address);
    let up = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    set("lo", libc::SIOCSIFFLAGS, &|request| {
        request.ifr_ifru.ifru_flags = up
    })?;
    set(DEVICE, libc::SIOCSIFADDR, &|request| {
        request.ifr_ifru.ifru_addr = address
    })?;
    set(DEVICE, libc::SIOCSIFNETMASK, &|request| {
        request.ifr_ifru.ifru_netmask = mask
    })?;
    set(DEVICE, libc::SIOCSIFMTU, &|request| {
        request.ifr_ifru.ifru_mtu = MTU_BYTES as i32
    })?;
    set(DEVICE, libc::SIOCSIFTXQLEN, &|request| {
        request.ifr_ifru.ifru_metric = DEVICE_QUEUE
    })?;
    set(DEVICE, libc::SIOCSIFFLAGS, &|request| {
        request.ifr_ifru.ifru_flags = up
    })?;
    Ok((Host { namespace }, device))
}

fn named(device: &str) -> libc::ifreq {
    // SAFETY: ifreq is plain data for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    request
}

fn socket_address(address: Ipv4Addr) -> libc::sockaddr {
    let mut data = [0; 14];
    // The address follows the port.
    for (to, from) in data[2..].iter_mut().zip(address.octets()) {
        *to = from as libc::c_char;
    }
    libc::sockaddr {
        sa_family: libc::AF_INET as libc::sa_family_t,
        sa_data: data,
    }
}

fn control(descriptor: libc::c_int, what: c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: each of these requests reads and writes one ifreq.
    checked(unsafe { libc::ioctl(descriptor, what as libc::Ioctl, std::ptr::from_mut(request)) }).map(drop)
}

/// Raises the thread's priority, so that a delay is the link's and not that of a busy machine. If this is not allowed,
/// the delay is less exact.
fn be_punctual() {
    // SAFETY: the system calls concern this thread, and the parameter is valid during the call.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        let priority = libc::sched_param { sched_priority: 1 };
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority);
    }
}

#[derive(Debug)]
struct Direction {
    link: Link,
    /// Packets in order, each with the time at which it is forwarded.
    under_way: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
    /// Time at which the last byte has passed.
    free: Option<Instant>,
}

impl Direction {
    fn new(link: Link) -> Direction {
        Direction {
            link,
            under_way: VecDeque::new(),
            bytes: 0,
            free: None,
        }
    }

    /// Queues a packet. Returns false if the capacity is exceeded.
    fn take(&mut self, packet: &[u8], now: Instant, jitter: Duration) -> bool {
        if self.bytes + packet.len() > MAX_UNDER_WAY_BYTES {
            return false;
        }
        let begins = self.free.map_or(now, |free| free.max(now));
        let through = match self.link.bytes_per_second {
            Some(rate) => begins + Duration::from_nanos(packet.len() as u64 * 1_000_000_000 / rate.max(1)),
            None => now,
        };
        self.free = Some(through);
        let due = through + self.link.least_delay + jitter;
        let due = self.under_way.back().map_or(due, |&(last, _)| last.max(due));
        self.bytes += packet.len();
        self.under_way.push_back((due, packet.to_vec()));
        true
    }

    fn due(&self) -> Option<Instant> {
        self.under_way.front().map(|&(due, _)| due)
    }
}

struct Router {
    devices: Vec<File>,
    /// Directions by source and destination.
    directions: Vec<Vec<Direction>>,
    random: u64,
    counts: Arc<Counts>,
}

impl Router {
    fn run(&mut self, wakes: &File) {
        let mut packet = vec![0; MTU_BYTES + 64];
        loop {
            let next = self.directions.iter().flatten().filter_map(Direction::due).min();
            let wait = next.map(|due| due.saturating_duration_since(Instant::now()));
            match self.wait(wakes, wait) {
                Ok(false) => {}
                Ok(true) => return,
                Err(error) => panic!("the router: {error}"),
            }
            for from in 0..self.devices.len() {
                self.take_from(from, &mut packet);
            }
            self.forward_due();
        }
    }

    /// Waits for packets up to the limit. Returns true at the end.
    fn wait(&self, wakes: &File, limit: Option<Duration>) -> io::Result<bool> {
        let mut polled: Vec<libc::pollfd> = [wakes]
            .into_iter()
            .chain(&self.devices)
            .map(|file| libc::pollfd {
                fd: file.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            })
            .collect();
        let limit = limit.map(|limit| libc::timespec {
            tv_sec: limit.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(limit.subsec_nanos()),
        });
        let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the array and the time are valid during the call, and no mask is given.
        let result = unsafe {
            libc::ppoll(
                polled.as_mut_ptr(),
                polled.len() as libc::nfds_t,
                limit,
                std::ptr::null(),
            )
        };
        match checked(result) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(polled[0].revents != 0),
        }
    }

    fn take_from(&mut self, from: usize, packet: &mut [u8]) {
        // Read a limited number of packets of a device, so that a flooded one does not delay the others.
        for _ in 0..64 {
            let Ok(bytes) = self.devices[from].read(packet) else {
                return;
            };
            let packet = &packet[..bytes];
            let Some(to) = self.host_for(packet).filter(|&to| to != from) else {
                // Neighbour discovery of IPv6 and similar packets.
                continue;
            };
            let mean = self.directions[from][to].link.mean_jitter;
            let jitter = mean.mul_f64(-(1.0 - self.unit()).ln());
            if !self.directions[from][to].take(packet, Instant::now(), jitter) {
                self.counts.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Returns the destination host of an IPv4 packet.
    fn host_for(&self, packet: &[u8]) -> Option<usize> {
        let header: &[u8; 20] = packet.first_chunk()?;
        let [a, b, c, d] = [header[16], header[17], header[18], header[19]];
        let host = usize::from(d).checked_sub(1)?;
        let is_ours = header[0] >> 4 == 4 && host < self.devices.len();
        (is_ours && Ipv4Addr::new(a, b, c, d) == Network::address(host)).then_some(host)
    }

    fn forward_due(&mut self) {
        for of_sender in &mut self.directions {
            for (to, direction) in of_sender.iter_mut().enumerate() {
                while direction.due().is_some_and(|due| due <= Instant::now()) {
                    let Some((_, packet)) = direction.under_way.pop_front() else {
                        break;
                    };
                    direction.bytes -= packet.len();
                    let count = match self.devices[to].write(&packet) {
                        Ok(_) => &self.counts.passed,
                        Err(_) => &self.counts.dropped,
                    };
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// Returns a number from 0 to 1.
    fn unit(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1u64 << 53) as f64
    }
}
