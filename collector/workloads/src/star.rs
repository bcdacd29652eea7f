//! Control channel between the ranks: a TCP connection from each rank to rank 0.
//!
//! It starts blocks at the same time and collects results. It is quiet while a block runs.

use crate::world::{LISTENER, World};
use std::env;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::FromRawFd;
use std::thread;
use std::time::{Duration, Instant};

/// First bytes of every connection.
const HELLO: &[u8; 8] = b"rkscope1";
/// Maximum size of a message, in bytes. A larger length comes from a foreign program.
const MAX_BYTES: u32 = 64 << 20;
/// Pause between two attempts to connect.
const RETRY: Duration = Duration::from_millis(20);
/// Time that a connecting program has to introduce itself.
const INTRODUCTION: Duration = Duration::from_secs(5);

/// The channel.
#[derive(Debug)]
pub struct Star {
    rank: u32,
    size: u32,
    /// Rank 0: the other ranks in their order. Others: rank 0.
    links: Vec<TcpStream>,
    /// Address of this host, as the other ranks reach it.
    own_address: IpAddr,
}

impl Star {
    /// Connects all ranks, or fails after this time. A message may take as long.
    pub fn connect(world: &World, meeting: SocketAddr, limit: Duration) -> io::Result<Self> {
        let deadline = Instant::now() + limit;
        if world.rank == 0 {
            let listener = match inherited() {
                Some(listener) => listener,
                // On its own host, the name of a host is often an address that no other host reaches.
                None => TcpListener::bind((unspecified(meeting), meeting.port()))?,
            };
            Self::accept(world, &listener, meeting, deadline, limit)
        } else {
            Self::join(world, meeting, deadline, limit)
        }
    }

    fn accept(
        world: &World,
        listener: &TcpListener,
        meeting: SocketAddr,
        deadline: Instant,
        limit: Duration,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let mut found: Vec<Option<TcpStream>> = (1..world.size).map(|_| None).collect();
        let mut own_address = meeting.ip();
        let mut refused = String::new();
        while let Some(missing) = found.iter().position(Option::is_none) {
            match listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false)?;
                    let reached_at = stream.local_addr()?.ip();
                    if own_address.is_loopback() || own_address.is_unspecified() || !reached_at.is_loopback()
                    {
                        own_address = reached_at;
                    }
                    // A stranger at this port is refused. The ranks go on.
                    match introduced(&stream, world.size) {
                        Ok(rank) => {
                            prepare(&stream, limit)?;
                            let place = &mut found[rank as usize - 1];
                            if place.is_some() {
                                return Err(io::Error::other(format!("two processes are rank {rank}")));
                            }
                            *place = Some(stream);
                        }
                        Err(error) => refused = format!("; a connection was refused: {error}"),
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if Instant::now() > deadline {
                        return Err(io::Error::new(
                            ErrorKind::TimedOut,
                            format!("rank {} of {} did not connect{refused}", missing + 1, world.size),
                        ));
                    }
                    thread::sleep(RETRY);
                }
                Err(error) => return Err(error),
            }
        }
        let mut star = Self {
            rank: 0,
            size: world.size,
            links: found.into_iter().flatten().collect(),
            own_address,
        };
        star.agree_on_addresses()?;
        Ok(star)
    }

    fn join(world: &World, meeting: SocketAddr, deadline: Instant, limit: Duration) -> io::Result<Self> {
        let mut stream = loop {
            match TcpStream::connect(meeting) {
                Ok(stream) => break stream,
                Err(_) if Instant::now() < deadline => thread::sleep(RETRY),
                Err(error) => {
                    let message = format!("rank 0 does not answer at {meeting}: {error}");
                    return Err(io::Error::new(error.kind(), message));
                }
            }
        };
        prepare(&stream, limit)?;
        stream.write_all(HELLO)?;
        stream.write_all(&world.rank.to_le_bytes())?;
        stream.write_all(&world.size.to_le_bytes())?;
        let own_address = stream.local_addr()?.ip();
        let mut star = Self {
            rank: world.rank,
            size: world.size,
            links: vec![stream],
            own_address,
        };
        star.agree_on_addresses()?;
        Ok(star)
    }

    /// Replaces a loopback address, which a rank on rank 0's host has, by the address at which others reach that host.
    fn agree_on_addresses(&mut self) -> io::Result<()> {
        let own = self.own_address.to_string().into_bytes();
        let first = self.from_first(|| own)?;
        let first = String::from_utf8_lossy(&first).parse().ok();
        if let Some(first) = first.filter(|_| self.own_address.is_loopback()) {
            self.own_address = first;
        }
        Ok(())
    }

    /// Returns the address of this host, as the other ranks reach it.
    pub fn own_address(&self) -> IpAddr {
        self.own_address
    }

    /// Returns the message of every rank, in the order of the ranks. All ranks must call it.
    pub fn exchange(&mut self, own: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        if self.rank == 0 {
            let mut all = vec![own.to_vec()];
            for (other, link) in self.links.iter_mut().enumerate() {
                all.push(receive(link).map_err(|error| named(&error, other as u32 + 1))?);
            }
            let whole = pack(&all);
            for (other, link) in self.links.iter_mut().enumerate() {
                send(link, &whole).map_err(|error| named(&error, other as u32 + 1))?;
            }
            Ok(all)
        } else {
            let link = &mut self.links[0];
            send(link, own).map_err(|error| named(&error, 0))?;
            let whole = receive(link).map_err(|error| named(&error, 0))?;
            unpack(&whole, self.size)
        }
    }

    /// Returns rank 0's message. All ranks must call it. Only rank 0 calls `own`.
    pub fn from_first(&mut self, own: impl FnOnce() -> Vec<u8>) -> io::Result<Vec<u8>> {
        let own = if self.rank == 0 { own() } else { Vec::new() };
        Ok(self.exchange(&own)?.swap_remove(0))
    }

    /// Waits for all ranks.
    pub fn barrier(&mut self) -> io::Result<()> {
        self.exchange(&[]).map(drop)
    }
}

/// Takes the listening socket that the starter of local ranks passed.
fn inherited() -> Option<TcpListener> {
    let descriptor: i32 = env::var(LISTENER).ok()?.parse().ok()?;
    // SAFETY: the starter passes an open descriptor under this name, to this process only, which takes it once.
    let listener = unsafe { TcpListener::from_raw_fd(descriptor) };
    listener.local_addr().ok().map(|_| listener)
}

/// Reads the introduction of a rank.
fn introduced(mut stream: &TcpStream, size: u32) -> io::Result<u32> {
    stream.set_read_timeout(Some(INTRODUCTION))?;
    let mut bytes = [0; 16];
    stream.read_exact(&mut bytes)?;
    let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let (rank, of) = (number(8), number(12));
    if &bytes[..8] != HELLO {
        return Err(io::Error::other("a foreign program"));
    }
    if of != size || rank == 0 || rank >= size {
        return Err(io::Error::other(format!(
            "a rank {rank} of {of} in a world of {size}"
        )));
    }
    Ok(rank)
}

/// Returns the address of all interfaces, in the family of this one.
fn unspecified(meeting: SocketAddr) -> IpAddr {
    match meeting {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}

fn prepare(stream: &TcpStream, limit: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))
}

/// Names the rank at the other end of a broken connection.
fn named(error: &io::Error, rank: u32) -> io::Error {
    let what = match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            "has ended".to_owned()
        }
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "does not answer".to_owned(),
        _ => format!("cannot be reached: {error}"),
    };
    io::Error::new(error.kind(), format!("rank {rank} {what}"))
}

fn send(link: &mut TcpStream, message: &[u8]) -> io::Result<()> {
    // One write, so that a barrier is one packet.
    let mut bytes = Vec::with_capacity(4 + message.len());
    bytes.extend((message.len() as u32).to_le_bytes());
    bytes.extend(message);
    link.write_all(&bytes)
}

fn receive(link: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    link.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > MAX_BYTES {
        return Err(io::Error::other(format!("a message of {length} bytes")));
    }
    let mut message = vec![0; length as usize];
    link.read_exact(&mut message)?;
    Ok(message)
}

fn pack(all: &[Vec<u8>]) -> Vec<u8> {
    let mut whole = Vec::new();
    for one in all {
        whole.extend((one.len() as u32).to_le_bytes());
        whole.extend(one);
    }
    whole
}

fn unpack(mut whole: &[u8], count: u32) -> io::Result<Vec<Vec<u8>>> {
    let short = || io::Error::new(ErrorKind::InvalidData, "a message of rank 0 is incomplete");
    let mut all = Vec::new();
    for _ in 0..count {
        let (length, rest) = whole.split_first_chunk::<4>().ok_or_else(short)?;
        let length = u32::from_le_bytes(*length) as usize;
        let (one, rest) = rest.split_at_checked(length).ok_or_else(short)?;
        all.push(one.to_vec());
        whole = rest;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a function on each of `size` ranks, and returns their results.
    fn on_ranks<T: Send + 'static>(
        size: u32,
        run: impl Fn(u32, io::Result<Star>) -> T + Send + Clone + 'static,
    ) -> Vec<T> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let meeting = listener.local_addr().expect("an address");
        let world = |rank| World {
            rank,
            size,
            local_rank: rank,
        };
        let limit = Duration::from_secs(20);
        let others: Vec<_> = (1..size)
            .map(|rank| {
                let run = run.clone();
                let world = world(rank);
                thread::spawn(move || run(rank, Star::join(&world, meeting, Instant::now() + limit, limit)))
            })
            .collect();
        // A stranger connects first. It must neither stop nor join the ranks.
        let mut stranger = TcpStream::connect(meeting).expect("connected");
        stranger.write_all(b"GET / HTTP/1.1\r\n").expect("sent");
        let first = Star::accept(&world(0), &listener, meeting, Instant::now() + limit, limit);
        let mut all = vec![run(0, first)];
        all.extend(others.into_iter().map(|other| other.join().expect("no panic")));
        all
    }

    #[test]
    fn every_rank_gets_every_message_in_order() {
        let results = on_ranks(4, |rank, star| {
            let mut star = star.expect("connected");
            star.barrier().expect("all are there");
            let first = star.from_first(|| vec![42]).expect("from rank 0");
            (
                first,
                star.exchange(&vec![rank as u8; rank as usize]).expect("all"),
            )
        });
        for (first, all) in results {
            assert_eq!(first, [42]);
            assert_eq!(all, [vec![], vec![1], vec![2, 2], vec![3, 3, 3]]);
        }
    }

    #[test]
    fn a_rank_that_ends_is_named() {
        let results = on_ranks(3, |rank, star| {
            let mut star = star.expect("connected");
            if rank == 2 {
                return None;
            }
            star.exchange(b"x").err().map(|error| error.to_string())
        });
        assert_eq!(results[0].as_deref(), Some("rank 2 has ended"));
    }

    #[test]
    fn a_rank_that_never_comes_is_named() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let meeting = listener.local_addr().expect("an address");
        let world = World {
            rank: 0,
            size: 2,
            local_rank: 0,
        };
        let limit = Duration::from_millis(50);
        let error =
            Star::accept(&world, &listener, meeting, Instant::now() + limit, limit).expect_err("alone");
        assert_eq!(error.to_string(), "rank 1 of 2 did not connect");
    }
}
