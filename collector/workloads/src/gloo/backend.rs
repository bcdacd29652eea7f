//! Gloo's operations.

use super::context::Context;
use super::cxx::Function;
use super::options::Options;
use crate::backend::{Backend, Messages, Prepared};
use crate::case::{Case, Pattern};
use crate::data::DataType;
use crate::library::Library;
use crate::star::Star;
use crate::world::World;
use anyhow::{Result, bail};
use rankscope_formats::bench::{BenchLibrary, Placement};
use rankscope_gloo_abi::offsets::{self, Offsets};
use std::ffi::c_void;
use std::ptr;
use std::time::Duration;

const CREATE_BUFFER: &str = "_ZN4gloo7Context19createUnboundBufferEPvm";
const SEND: &str = "_ZN4gloo9transport3tcp13UnboundBuffer4sendEimmm";
const RECEIVE: &str = "_ZN4gloo9transport3tcp13UnboundBuffer4recvEimmm";
const WAIT_SEND: &str =
    "_ZN4gloo9transport3tcp13UnboundBuffer8waitSendEPiNSt6chrono8durationIlSt5ratioILl1ELl1000EEEE";
const WAIT_RECEIVE: &str =
    "_ZN4gloo9transport3tcp13UnboundBuffer8waitRecvEPiNSt6chrono8durationIlSt5ratioILl1ELl1000EEEE";
/// Slot of messages. Collectives use slots with a prefix of their own.
const SLOT: u64 = 1;

type Collective = unsafe extern "C-unwind" fn(*mut c_void);
type Post = unsafe extern "C-unwind" fn(*mut c_void, i32, u64, u64, u64);
type Wait = unsafe extern "C-unwind" fn(*mut c_void, *mut i32, i64) -> bool;
type CreateBuffer =
    unsafe extern "C-unwind" fn(*mut *mut c_void, *mut c_void, *mut c_void, usize) -> *mut c_void;

/// Functions of unbound buffers.
#[derive(Clone, Copy, Debug)]
struct Functions {
    create: CreateBuffer,
    send: Post,
    receive: Post,
    wait_send: Wait,
    wait_receive: Wait,
}

/// Connected ranks.
#[derive(Debug)]
pub struct Gloo {
    context: Context,
    library: Library,
    described: BenchLibrary,
    functions: Functions,
    rank: u32,
    timeout_ms: i64,
}

impl Gloo {
    /// Connects all ranks. Calls take at most this time.
    pub fn connect(
        described: &BenchLibrary,
        world: &World,
        star: &mut Star,
        limit: Duration,
    ) -> Result<Self> {
        let library = Library::load(&described.path)?;
        // SAFETY: the functions have these signatures: member functions with the object first, and a hidden first argument
        // for a result with a destructor. A duration is an integer.
        let functions = unsafe {
            Functions {
                create: library.function(CREATE_BUFFER)?,
                send: library.function(SEND)?,
                receive: library.function(RECEIVE)?,
                wait_send: library.function(WAIT_SEND)?,
                wait_receive: library.function(WAIT_RECEIVE)?,
            }
        };
        let context = Context::connect(&library, world, star)?;
        Ok(Self {
            context,
            library,
            described: described.clone(),
            functions,
            rank: world.rank,
            timeout_ms: limit.as_millis() as i64,
        })
    }

    fn buffer(&mut self, memory: *mut u8, bytes: usize) -> Buffer {
        let mut made = ptr::null_mut();
        // SAFETY: the context is connected. The memory outlives the buffer (see `GlooCase`).
        unsafe {
            (self.functions.create)(&raw mut made, self.context.address(), memory.cast(), bytes);
        }
        Buffer(made)
    }
}

/// Returns the mangled name of a collective, and the fields of its options.
fn collective(pattern: Pattern) -> Option<(&'static str, Offsets)> {
    Some(match pattern {
        Pattern::AllReduce => ("_ZN4gloo9allreduceERKNS_16AllreduceOptionsE", offsets::ALL_REDUCE),
        Pattern::AllGather => ("_ZN4gloo9allgatherERNS_16AllgatherOptionsE", offsets::ALL_GATHER),
        Pattern::AllToAll => ("_ZN4gloo8alltoallERNS_15AlltoallOptionsE", offsets::ALL_TO_ALL),
        Pattern::Broadcast => ("_ZN4gloo9broadcastERNS_16BroadcastOptionsE", offsets::BROADCAST),
        Pattern::Reduce => ("_ZN4gloo6reduceERNS_13ReduceOptionsE", offsets::REDUCE),
        Pattern::Gather => ("_ZN4gloo6gatherERNS_13GatherOptionsE", offsets::GATHER),
        Pattern::Scatter => ("_ZN4gloo7scatterERNS_14ScatterOptionsE", offsets::SCATTER),
        Pattern::SendReceive | Pattern::ReduceScatter => return None,
    })
}

impl Backend for Gloo {
    fn library(&self) -> BenchLibrary {
        self.described.clone()
    }

    fn why_not(&self, case: &Case) -> Option<&'static str> {
        if case.pattern == Pattern::ReduceScatter {
            return Some("Gloo has no such function; PyTorch does it by an all-reduce");
        }
        if case.pattern.is_reduction() && matches!(case.data_type, DataType::Float16 | DataType::Bfloat16) {
            return Some("a sum of this type is not a part of Gloo");
        }
        None
    }

    fn prepare<'a>(&'a mut self, case: &Case) -> Result<Box<dyn Prepared + 'a>> {
        Ok(Box::new(GlooCase::new(self, case)?))
    }

    fn messages<'a>(&'a mut self, bytes: u64) -> Result<Box<dyn Messages + 'a>> {
        let mut memory = vec![0u8; bytes as usize];
        let buffer = self.buffer(memory.as_mut_ptr(), memory.len());
        Ok(Box::new(GlooMessages {
            buffer,
            memory,
            functions: self.functions,
            timeout_ms: self.timeout_ms,
        }))
    }
}

/// `std::unique_ptr<UnboundBuffer>`.
struct Buffer(*mut c_void);

impl Drop for Buffer {
    fn drop(&mut self) {
        // The second entry of the virtual table is the destructor that also frees the object (Itanium C++ ABI). The class
        // declares its destructor first.
        // SAFETY: the object is alive and not used any more.
        unsafe {
            let table = self
                .0
                .cast::<*const unsafe extern "C-unwind" fn(*mut c_void)>()
                .read();
            table.add(1).read()(self.0);
        }
    }
}

/// A case on Gloo. Fields are dropped in order: buffers before their memory.
struct GlooCase<'a> {
    call: Call,
    buffers: Vec<Buffer>,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Offset and size of this rank's input in the common buffer, if the case is in place.
    in_place: Option<(usize, usize)>,
    /// Size of this rank's result. The rest of the output is scratch memory.
    result_bytes: usize,
    gloo: &'a mut Gloo,
}

enum Call {
    /// A function and its argument.
    Collective(Collective, Options),
    /// Ring exchange: next and previous rank.
    Exchange(i32, i32),
}

impl<'a> GlooCase<'a> {
    fn new(gloo: &'a mut Gloo, case: &Case) -> Result<Self> {
        let (send_bytes, receive_bytes) = case.buffer_bytes(gloo.rank);
        let (send_bytes, receive_bytes) = (send_bytes as usize, receive_bytes as usize);
        // In a reduction every rank needs an output as scratch memory.
        let output_bytes = if case.pattern == Pattern::Reduce {
            send_bytes
        } else {
            receive_bytes
        };
        let in_place = if case.placement == Placement::InPlace {
            let Some((from, _)) = case.in_place_offsets(gloo.rank) else {
                bail!("{} has no in-place form", case.pattern.name());
            };
            Some((from as usize, send_bytes))
        } else {
            None
        };
        let mut input = vec![0u8; if in_place.is_some() { 0 } else { send_bytes }];
        let mut output = vec![0u8; output_bytes];
        let mut buffers = Vec::new();
        let context = gloo.context.address();
        let Some((function, fields)) = collective(case.pattern) else {
            let to = gloo.buffer(input.as_mut_ptr(), input.len());
            let from = gloo.buffer(output.as_mut_ptr(), output.len());
            buffers.extend([to, from]);
            let (next, before) = (case.next(gloo.rank), case.previous(gloo.rank));
            return Ok(Self {
                call: Call::Exchange(next as i32, before as i32),
                buffers,
                input,
                output,
                in_place,
                result_bytes: receive_bytes,
                gloo,
            });
        };
        let mut options = Options::new(&fields, context, gloo.timeout_ms);
        if !input.is_empty()
            && let Some(place) = fields.input
        {
            // A scatter has a buffer per rank. Every other operation has one.
            let parts = if case.pattern == Pattern::Scatter {
                case.ranks as usize
            } else {
                1
            };
            let of_part = input.len() / parts;
            let all: Vec<_> = (0..parts)
                .map(|part| gloo.buffer(input[part * of_part..].as_mut_ptr(), of_part))
                .collect();
            options.buffers(place, &all.iter().map(|buffer| buffer.0).collect::<Vec<_>>());
            buffers.extend(all);
        }
        if !output.is_empty()
            && let Some(place) = fields.output
        {
            let buffer = gloo.buffer(output.as_mut_ptr(), output.len());
            options.buffers(place, &[buffer.0]);
            buffers.push(buffer);
        }
        if let Some(offset) = fields.elements {
            options.put(offset, case.elements);
        }
        if let Some(offset) = fields.element_bytes {
            options.put(offset, case.data_type.bytes());
        }
        if let Some(offset) = fields.root {
            options.put(offset, 0i32);
        }
        if let Some(offset) = fields.reduce {
            options.reduction(offset, Function::plain(sum_of(case.data_type)?));
        }
        // SAFETY: the function takes a reference to the options, whose layout belongs to it.
        let collective = unsafe { gloo.library.function(function) }?;
        Ok(Self {
            call: Call::Collective(collective, options),
            buffers,
            input,
            output,
            in_place,
            result_bytes: receive_bytes,
            gloo,
        })
    }
}

impl Prepared for GlooCase<'_> {
    fn fill(&mut self, input: &[u8]) -> Result<()> {
        self.output.fill(0);
        match self.in_place {
            Some((from, bytes)) if bytes == input.len() => {
                self.output[from..from + bytes].copy_from_slice(input)
            }
            Some(_) => bail!("an input of {} bytes", input.len()),
            None => self.input.copy_from_slice(input),
        }
        Ok(())
    }

    fn run(&mut self, iterations: u32) -> Result<()> {
        let functions = self.gloo.functions;
        let timeout = self.gloo.timeout_ms;
        for _ in 0..iterations {
            match &mut self.call {
                // SAFETY: options, buffers and memory live as long as `self`. Gloo keeps nothing after the call.
                Call::Collective(function, options) => unsafe { function(options.address()) },
                Call::Exchange(next, before) => {
                    let (to, from) = (self.buffers[0].0, self.buffers[1].0);
                    // SAFETY: as above. Both messages are complete when the waits return.
                    unsafe {
                        (functions.receive)(from, *before, SLOT, 0, self.output.len() as u64);
                        (functions.send)(to, *next, SLOT, 0, self.input.len() as u64);
                        (functions.wait_receive)(from, ptr::null_mut(), timeout);
                        (functions.wait_send)(to, ptr::null_mut(), timeout);
                    }
                }
            }
        }
        Ok(())
    }

    fn output(&mut self) -> Result<Vec<u8>> {
        Ok(self.output[..self.result_bytes].to_vec())
    }
}

struct GlooMessages {
    buffer: Buffer,
    memory: Vec<u8>,
    functions: Functions,
    timeout_ms: i64,
}

impl Messages for GlooMessages {
    fn send(&mut self, to: u32) -> Result<()> {
        // SAFETY: the buffer and its memory live as long as `self`, and the message is complete when the wait returns.
        unsafe {
            (self.functions.send)(self.buffer.0, to as i32, SLOT, 0, self.memory.len() as u64);
            (self.functions.wait_send)(self.buffer.0, ptr::null_mut(), self.timeout_ms);
        }
        Ok(())
    }

    fn receive(&mut self, from: u32) -> Result<()> {
        // SAFETY: as in `send`.
        unsafe {
            (self.functions.receive)(self.buffer.0, from as i32, SLOT, 0, self.memory.len() as u64);
            (self.functions.wait_receive)(self.buffer.0, ptr::null_mut(), self.timeout_ms);
        }
        Ok(())
    }
}

/// Returns the sum for a type, as `std::function` calls it.
fn sum_of(data_type: DataType) -> Result<*const c_void> {
    Ok(match data_type {
        DataType::Uint8 => sum::<u8> as *const c_void,
        DataType::Int32 => sum::<i32> as *const c_void,
        DataType::Int64 => sum::<i64> as *const c_void,
        DataType::Float32 => sum::<f32> as *const c_void,
        DataType::Float64 => sum::<f64> as *const c_void,
        DataType::Float16 | DataType::Bfloat16 => bail!("Gloo has no sum of {}", data_type.name()),
    })
}

/// Sum with the wrapping of C.
trait Add: Copy {
    fn add(self, other: Self) -> Self;
}
macro_rules! add {
    ($($integer:ty),*; $($float:ty),*) => {
        $(impl Add for $integer { fn add(self, other: Self) -> Self { self.wrapping_add(other) } })*
        $(impl Add for $float { fn add(self, other: Self) -> Self { self + other } })*
    };
}
add!(u8, i32, i64; f32, f64);

/// `void(void* result, const void* one, const void* other, size_t count)`, each by reference.
unsafe extern "C-unwind" fn sum<T: Add>(
    _: *const c_void,
    result: *const *mut T,
    one: *const *const T,
    other: *const *const T,
    count: *const usize,
) {
    // SAFETY: Gloo passes buffers of `count` elements. The result is apart from both inputs, or equal to the first. In the
    // second case only one slice is made of both.
    unsafe {
        let (result, one, other, count) = (*result, *one, *other, *count);
        if ptr::eq(result, one) {
            let result = std::slice::from_raw_parts_mut(result, count);
            let other = std::slice::from_raw_parts(other, count);
            for (to, from) in result.iter_mut().zip(other) {
                *to = to.add(*from);
            }
        } else if ptr::eq(result, other) {
            let result = std::slice::from_raw_parts_mut(result, count);
            let one = std::slice::from_raw_parts(one, count);
            for (to, from) in result.iter_mut().zip(one) {
                *to = from.add(*to);
            }
        } else {
            let result = std::slice::from_raw_parts_mut(result, count);
            let (one, other) = (
                std::slice::from_raw_parts(one, count),
                std::slice::from_raw_parts(other, count),
            );
            for ((to, one), other) in result.iter_mut().zip(one).zip(other) {
                *to = one.add(*other);
            }
        }
    }
}
