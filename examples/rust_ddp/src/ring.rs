//! Ring all-reduce over TCP: each rank sends to the next one, and receives from the one before.

use crate::world::World;
use anyhow::{Context, Result};
use rankscope_layer::{Communicator, Operation};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};
use tracing::debug_span;

/// Time within which all ranks must start.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);

/// The connections of one rank.
pub struct Ring {
    rank: usize,
    size: usize,
    next: TcpStream,
    previous: TcpStream,
    communicator: Rc<Communicator>,
}

impl Ring {
    /// Connects all ranks.
    pub fn connect(world: &World) -> Result<Self> {
        let (rank, size) = (world.rank as usize, world.size as usize);
        let port = |rank: usize| world.port + rank as u16;
        let listener = TcpListener::bind(("127.0.0.1", port(rank)))?;
        let deadline = Instant::now() + CONNECT_LIMIT;
        let next = loop {
            match TcpStream::connect(("127.0.0.1", port((rank + 1) % size))) {
                Ok(next) => break next,
                Err(_) if Instant::now() < deadline => thread::sleep(Duration::from_millis(10)),
                Err(error) => return Err(error).context("the next rank does not listen"),
            }
        };
        let (previous, _) = listener.accept()?;
        next.set_nodelay(true)?;
        Ok(Self {
            rank,
            size,
            next,
            previous,
            communicator: Rc::new(Communicator::new("ring", world.rank, world.size)),
        })
    }

    /// Adds the values of all ranks.
    pub fn all_reduce(&mut self, values: &mut [f32]) -> Result<()> {
        let bytes = size_of_val(values) as u64;
        // The guard borrows the communicator, which the rounds do not need.
        let communicator = Rc::clone(&self.communicator);
        let collective = communicator.collective(Operation::AllReduce, bytes);
        let outcome = self.exchange(values);
        if outcome.is_err() {
            collective.fail();
        }
        outcome
    }

    fn exchange(&mut self, values: &mut [f32]) -> Result<()> {
        // In the first rounds each rank adds what it receives, in the second ones it takes it over.
        for round in 0..2 * (self.size - 1) {
            let _span = debug_span!("round", round).entered();
            let sent = (self.rank + 2 * self.size - round) % self.size;
            let received = (sent + self.size - 1) % self.size;
            let sent = part(values.len(), self.size, sent);
            let received = part(values.len(), self.size, received);
            let message: Vec<u8> = values[sent]
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect();
            let mut answer = vec![0; received.len() * size_of::<f32>()];
            // A rank that only sends would wait for ever once the buffers of the connection are full.
            let (next, previous) = (&mut self.next, &mut self.previous);
            thread::scope(|scope| {
                let sending = scope.spawn(|| next.write_all(&message));
                previous.read_exact(&mut answer)?;
                sending.join().unwrap_or(Ok(()))
            })?;
            let is_sum = round < self.size - 1;
            for (value, bytes) in values[received].iter_mut().zip(answer.as_chunks::<4>().0) {
                let other = f32::from_le_bytes(*bytes);
                *value = if is_sum { *value + other } else { other };
            }
        }
        Ok(())
    }
}

/// Returns the values that a part of the ring consists of.
fn part(values: usize, parts: usize, part: usize) -> std::ops::Range<usize> {
    values * part / parts..values * (part + 1) / parts
}
