//! NCCL's operations on one device per rank.

use super::functions::{Functions, SUM, UniqueId, number};
use crate::backend::{Backend, Messages, Prepared};
use crate::case::{Case, Pattern};
use crate::cuda::{Device, Memory, device_count};
use crate::data::DataType;
use crate::star::Star;
use crate::world::World;
use anyhow::{Context as _, Result, anyhow, bail};
use rankscope_formats::bench::{BenchLibrary, Placement};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::time::{Duration, Instant};

/// Connected ranks.
#[derive(Debug)]
pub struct Nccl {
    functions: Functions,
    device: Device,
    /// Communicator; null after an error.
    comm: Cell<*mut c_void>,
    described: BenchLibrary,
    rank: u32,
    /// Maximum time of the operations that are waited for together.
    limit: Duration,
}

/// Queries of the stream between two looks at the communicator and the clock.
const POLLS_PER_CHECK: u32 = 256;

impl Nccl {
    /// Connects all ranks. Each rank takes the device with its number on the host. With fewer devices, ranks share them.
    /// Operations that are waited for together take at most `limit`.
    pub fn connect(
        described: &BenchLibrary,
        world: &World,
        star: &mut Star,
        limit: Duration,
    ) -> Result<Self> {
        let device = Device::open(world.local_rank % device_count().max(1))?;
        let functions = Functions::load(&described.path)?;
        let mut id = UniqueId { bytes: [0; 128] };
        if world.rank == 0 {
            // SAFETY: the argument is valid memory.
            functions.check("ncclGetUniqueId", unsafe {
                (functions.get_unique_id)(&raw mut id)
            })?;
        }
        let bytes = star.from_first(|| id.bytes.to_vec())?;
        id.bytes = bytes
            .try_into()
            .map_err(|_| anyhow!("rank 0 has sent no identity of a communicator"))?;
        let mut comm = ptr::null_mut();
        // SAFETY: the device of this rank is current. The identity is that of rank 0.
        let result =
            unsafe { (functions.comm_init_rank)(&raw mut comm, world.size as i32, id, world.rank as i32) };
        functions.check("ncclCommInitRank", result)?;
        let described = BenchLibrary {
            version: functions.version().or_else(|| described.version.clone()),
            path: functions.file().unwrap_or_else(|| described.path.clone()),
            ..described.clone()
        };
        Ok(Self {
            functions,
            device,
            comm: Cell::new(comm),
            described,
            rank: world.rank,
            limit,
        })
    }

    /// Runs calls and waits for them. After an error, the communicator is aborted at once: the memory that the operations use
    /// could otherwise not be freed, and destroying the communicator could wait for ever.
    fn complete(&self, calls: impl FnOnce() -> Result<()>) -> Result<()> {
        let outcome = calls().and_then(|()| self.poll());
        if outcome.is_err() {
            let comm = self.comm.replace(ptr::null_mut());
            if !comm.is_null() {
                // SAFETY: the communicator is alive, and nothing uses it any more.
                unsafe { (self.functions.comm_abort)(comm) };
            }
        }
        outcome
    }

    /// Waits for the stream up to the time limit, and reports an error of the communicator.
    fn poll(&self) -> Result<()> {
        let deadline = Instant::now() + self.limit;
        let mut polls = 0u32;
        while !self.device.is_idle()? {
            polls = polls.wrapping_add(1);
            if polls.is_multiple_of(POLLS_PER_CHECK) {
                self.check_communicator()?;
                if Instant::now() > deadline {
                    bail!(
                        "the operations did not end within {} s (--timeout)",
                        self.limit.as_secs()
                    );
                }
            }
            std::thread::yield_now();
        }
        self.check_communicator()
    }

    fn check_communicator(&self) -> Result<()> {
        let mut error = 0;
        // SAFETY: the communicator is alive.
        let result = unsafe { (self.functions.comm_error)(self.comm.get(), &raw mut error) };
        self.functions.check("ncclCommGetAsyncError", result)?;
        self.functions.check("an earlier operation", error)
    }

    fn grouped(&self, calls: impl FnOnce() -> Result<()>) -> Result<()> {
        // SAFETY: the end below belongs to this start.
        let started = unsafe { (self.functions.group_start)() };
        self.functions.check("ncclGroupStart", started)?;
        let called = calls();
        // SAFETY: as above. The group ends also after an error.
        let ended = unsafe { (self.functions.group_end)() };
        called?;
        self.functions.check("ncclGroupEnd", ended)
    }

    fn send(&self, from: *const c_void, count: u64, data_type: i32, to: u32) -> Result<()> {
        let stream = self.device.stream_handle();
        // SAFETY: the memory contains the elements and lives until the stream is synchronised.
        let result = unsafe {
            (self.functions.send)(
                from,
                count as usize,
                data_type,
                to as i32,
                self.comm.get(),
                stream,
            )
        };
        self.functions.check("ncclSend", result)
    }

    fn receive(&self, into: *mut c_void, count: u64, data_type: i32, from: u32) -> Result<()> {
        let stream = self.device.stream_handle();
        // SAFETY: as in `send`.
        let result = unsafe {
            (self.functions.receive)(
                into,
                count as usize,
                data_type,
                from as i32,
                self.comm.get(),
                stream,
            )
        };
        self.functions.check("ncclRecv", result)
    }
}

impl Drop for Nccl {
    fn drop(&mut self) {
        let comm = self.comm.get();
        if !comm.is_null() {
            // SAFETY: nothing uses the communicator any more, and no operation is pending.
            unsafe { (self.functions.comm_destroy)(comm) };
        }
    }
}

impl Backend for Nccl {
    fn library(&self) -> BenchLibrary {
        self.described.clone()
    }

    fn why_not(&self, _: &Case) -> Option<&'static str> {
        None
    }

    fn prepare<'a>(&'a mut self, case: &Case) -> Result<Box<dyn Prepared + 'a>> {
        let (send_bytes, receive_bytes) = case.buffer_bytes(self.rank);
        let (input, output, offsets) = if case.placement == Placement::InPlace {
            let offsets = case
                .in_place_offsets(self.rank)
                .with_context(|| format!("{} has no in-place form", case.pattern.name()))?;
            let whole = (offsets.0 + send_bytes).max(offsets.1 + receive_bytes);
            (None, self.device.memory(whole)?, offsets)
        } else {
            let input = self.device.memory(send_bytes)?;
            (Some(input), self.device.memory(receive_bytes)?, (0, 0))
        };
        Ok(Box::new(NcclCase {
            nccl: self,
            case: *case,
            input,
            output,
            offsets,
        }))
    }

    fn messages<'a>(&'a mut self, bytes: u64) -> Result<Box<dyn Messages + 'a>> {
        Ok(Box::new(NcclMessages {
            memory: self.device.memory(bytes)?,
            bytes,
            nccl: self,
        }))
    }
}

struct NcclCase<'a> {
    nccl: &'a Nccl,
    case: Case,
    /// Input; `None` if it is in the output.
    input: Option<Memory>,
    output: Memory,
    /// Offsets of input and output in a common buffer, in bytes.
    offsets: (u64, u64),
}

impl NcclCase<'_> {
    fn call(&self) -> Result<()> {
        let Self { nccl, case, .. } = self;
        let functions = &nccl.functions;
        let from = self
            .input
            .as_ref()
            .unwrap_or(&self.output)
            .address(self.offsets.0);
        let into = self.output.address(self.offsets.1);
        let (count, kind) = (case.elements as usize, number(case.data_type));
        let (comm, stream) = (nccl.comm.get(), nccl.device.stream_handle());
        let part = case.elements * case.data_type.bytes();
        // SAFETY: the memory has the sizes that each operation needs (`Case::buffer_bytes`), and lives until the stream is
        // synchronised in `run`.
        unsafe {
            match case.pattern {
                Pattern::AllReduce => functions.check(
                    "ncclAllReduce",
                    (functions.all_reduce)(from, into, count, kind, SUM, comm, stream),
                ),
                Pattern::ReduceScatter => functions.check(
                    "ncclReduceScatter",
                    (functions.reduce_scatter)(from, into, count, kind, SUM, comm, stream),
                ),
                Pattern::AllGather => functions.check(
                    "ncclAllGather",
                    (functions.all_gather)(from, into, count, kind, comm, stream),
                ),
                Pattern::Broadcast => functions.check(
                    "ncclBroadcast",
                    (functions.broadcast)(from, into, count, kind, 0, comm, stream),
                ),
                Pattern::Reduce => functions.check(
                    "ncclReduce",
                    (functions.reduce)(from, into, count, kind, SUM, 0, comm, stream),
                ),
                Pattern::AllToAll => nccl.grouped(|| {
                    for peer in 0..case.ranks {
                        let offset = (u64::from(peer) * part) as usize;
                        nccl.send(from.byte_add(offset), case.elements, kind, peer)?;
                        nccl.receive(into.byte_add(offset), case.elements, kind, peer)?;
                    }
                    Ok(())
                }),
                Pattern::Gather => nccl.grouped(|| {
                    if nccl.rank == 0 {
                        for peer in 0..case.ranks {
                            let offset = (u64::from(peer) * part) as usize;
                            nccl.receive(into.byte_add(offset), case.elements, kind, peer)?;
                        }
                    }
                    nccl.send(from, case.elements, kind, 0)
                }),
                Pattern::Scatter => nccl.grouped(|| {
                    if nccl.rank == 0 {
                        for peer in 0..case.ranks {
                            let offset = (u64::from(peer) * part) as usize;
                            nccl.send(from.byte_add(offset), case.elements, kind, peer)?;
                        }
                    }
                    nccl.receive(into, case.elements, kind, 0)
                }),
                Pattern::SendReceive => nccl.grouped(|| {
                    nccl.send(from, case.elements, kind, case.next(nccl.rank))?;
                    nccl.receive(into, case.elements, kind, case.previous(nccl.rank))
                }),
            }
        }
    }
}

impl Prepared for NcclCase<'_> {
    fn fill(&mut self, input: &[u8]) -> Result<()> {
        self.output.clear()?;
        match &mut self.input {
            Some(memory) => memory.upload(0, input),
            None => self.output.upload(self.offsets.0, input),
        }
    }

    fn run(&mut self, iterations: u32) -> Result<()> {
        self.nccl
            .complete(|| (0..iterations).try_for_each(|_| self.call()))
    }

    fn output(&mut self) -> Result<Vec<u8>> {
        let (_, bytes) = self.case.buffer_bytes(self.nccl.rank);
        self.output.download(self.offsets.1, bytes)
    }
}

struct NcclMessages<'a> {
    nccl: &'a Nccl,
    memory: Memory,
    bytes: u64,
}

impl NcclMessages<'_> {
    fn put(&mut self, is_sender: bool, peer: u32, count: u32) -> Result<()> {
        let memory = self.memory.address(0);
        self.nccl.complete(|| {
            (0..count).try_for_each(|_| {
                if is_sender {
                    self.nccl.send(memory, self.bytes, BYTES, peer)
                } else {
                    self.nccl.receive(memory, self.bytes, BYTES, peer)
                }
            })
        })
    }
}

impl Messages for NcclMessages<'_> {
    fn send(&mut self, to: u32) -> Result<()> {
        self.put(true, to, 1)
    }

    fn receive(&mut self, from: u32) -> Result<()> {
        self.put(false, from, 1)
    }

    fn send_all(&mut self, to: u32, count: u32) -> Result<()> {
        self.put(true, to, count)
    }

    fn receive_all(&mut self, from: u32, count: u32) -> Result<()> {
        self.put(false, from, count)
    }
}

/// Type of the elements of messages.
const BYTES: i32 = number(DataType::Uint8);
