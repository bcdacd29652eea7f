//! Uses NCCL as Rust programs do: linked, with private declarations.
//!   nccl_rust RANK SIZE STORE CALLS

use std::ffi::{c_int, c_void};
use std::path::Path;
use std::time::Duration;
use std::{env, fs, process, thread};

#[repr(C)]
#[derive(Clone, Copy)]
struct UniqueId([u8; 128]);

/// Stream of the double (tests/doubles/nccl/nccl_double.h).
#[repr(C)]
struct Stream {
    launched: i64,
    capturing: c_int,
}

type Communicator = *mut c_void;

unsafe extern "C" {
    fn ncclGetUniqueId(id: *mut UniqueId) -> c_int;
    fn ncclCommInitRank(handle: *mut Communicator, size: c_int, id: UniqueId, rank: c_int) -> c_int;
    fn ncclAllGather(
        send: *const c_void,
        receive: *mut c_void,
        count: usize,
        data_type: c_int,
        communicator: Communicator,
        stream: *mut Stream,
    ) -> c_int;
    fn ncclCommDestroy(communicator: Communicator) -> c_int;
}

const FLOAT64: c_int = 8;

fn fine(code: c_int) {
    if code != 0 {
        eprintln!("NCCL returned {code}");
        process::exit(3);
    }
}

fn main() {
    let arguments: Vec<String> = env::args().collect();
    let number = |at: usize| arguments[at].parse::<c_int>().expect("a number");
    let (rank, size, calls) = (number(1), number(2), number(4));
    let path = Path::new(&arguments[3]).join("id");
    let mut id = UniqueId([0; 128]);
    if rank == 0 {
        // SAFETY: the call writes the id, and the pointer is to a local.
        fine(unsafe { ncclGetUniqueId(&mut id) });
        let fresh = path.with_extension("fresh");
        fs::write(&fresh, id.0).expect("the id");
        fs::rename(fresh, path).expect("the id");
    } else {
        while !path.exists() {
            thread::sleep(Duration::from_millis(1));
        }
        id.0.copy_from_slice(&fs::read(path).expect("the id"));
    }
    let mut communicator: Communicator = std::ptr::null_mut();
    // SAFETY: the arguments are as NCCL documents them, and the pointer is to a local.
    fine(unsafe { ncclCommInitRank(&mut communicator, size, id, rank) });
    let mut buffer = vec![0f64; 4096];
    let mut stream = Stream { launched: 0, capturing: 0 };
    for call in 0..calls as usize {
        let send = buffer.as_ptr().cast();
        // SAFETY: the double does not access the buffer, so it is long enough.
        fine(unsafe {
            ncclAllGather(send, buffer.as_mut_ptr().cast(), 10 + call, FLOAT64, communicator, &mut stream)
        });
    }
    // SAFETY: the communicator was made above and is not used afterwards.
    fine(unsafe { ncclCommDestroy(communicator) });
    assert_eq!(stream.launched, i64::from(calls));
}
