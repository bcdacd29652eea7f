//! NCCL, and RCCL, which has the same names. One row per intercepted function of all versions since 2.18.
//!
//! The signatures come from the public headers of NCCL 2.18.3 to 2.32.3, and of RCCL in ROCm 6.2. A function that
//! exists in two versions has the same signature in both. A call puts work on a stream and returns. Records here say
//! that the program requested an operation, never that it was completed.

pub mod calls;
pub mod capture;
pub mod communicators;
pub mod config;
pub mod data_type;
pub mod events;
pub mod failures;
pub mod groups;
pub mod memory;
pub mod open_group;
pub mod plugin;
pub mod result;
pub mod version;

use crate::core::adapters::Adapter;
use crate::cuda::device_properties;
use calls::{Roles, enqueue};
use communicators::{Ending, end};

/// Writes which sources of device times are active. Launches are timed by events while CUPTI's kernels are missing.
pub static ADAPTER: Adapter = Adapter {
    ready: |set| {
        plugin::define(set);
        events::define(set);
        version::define(set);
        device_properties::forget();
    },
    kernels_missing: events::substitute,
    ..Adapter::NOTHING
};

/// Return value if no loaded library has the function: `ncclSystemError`.
const MISSING: usize = 2;

// In rows, "2.19" means: since that version.
crate::wrappers! {
    // Collectives.
    all_reduce = "ncclAllReduce", seen "2.18", wide |call| enqueue(&Roles::ALL_REDUCE, call);
    all_gather = "ncclAllGather", seen "2.18", wide |call| enqueue(&Roles::ALL_GATHER, call);
    reduce_scatter = "ncclReduceScatter", seen "2.18", wide |call| enqueue(&Roles::REDUCE_SCATTER, call);
    broadcast = "ncclBroadcast", seen "2.18", wide |call| enqueue(&Roles::BROADCAST, call);
    bcast = "ncclBcast", seen "2.18", wide |call| enqueue(&Roles::BROADCAST_IN_PLACE, call);
    reduce = "ncclReduce", seen "2.18", wide |call| enqueue(&Roles::REDUCE, call);
    all_to_all = "ncclAlltoAll", seen "2.28", wide |call| enqueue(&Roles::ALL_TO_ALL, call);
    gather = "ncclGather", seen "2.28", wide |call| enqueue(&Roles::GATHER, call);
    scatter = "ncclScatter", seen "2.28", wide |call| enqueue(&Roles::SCATTER, call);
    // The same functions with one more argument, a configuration. It is forwarded without being read.
    all_reduce_config = "ncclAllReduceConfig", seen "2.32", wide |call| enqueue(&Roles::ALL_REDUCE, call);
    all_gather_config = "ncclAllGatherConfig", seen "2.32", wide |call| enqueue(&Roles::ALL_GATHER, call);
    reduce_scatter_config = "ncclReduceScatterConfig", seen "2.32",
        wide |call| enqueue(&Roles::REDUCE_SCATTER, call);
    broadcast_config = "ncclBroadcastConfig", seen "2.32", wide |call| enqueue(&Roles::BROADCAST, call);
    reduce_config = "ncclReduceConfig", seen "2.32", wide |call| enqueue(&Roles::REDUCE, call);
    all_to_all_config = "ncclAlltoAllConfig", seen "2.32", wide |call| enqueue(&Roles::ALL_TO_ALL, call);
    gather_config = "ncclGatherConfig", seen "2.32", wide |call| enqueue(&Roles::GATHER, call);
    scatter_config = "ncclScatterConfig", seen "2.32", wide |call| enqueue(&Roles::SCATTER, call);

    // Functions of RCCL that no NCCL has.
    all_to_all_rccl = "ncclAllToAll", seen "rccl", wide |call| enqueue(&Roles::ALL_TO_ALL, call);
    all_to_all_v = "ncclAllToAllv", seen "rccl", wide |call| enqueue(&Roles::ALL_TO_ALL_V, call);
    all_reduce_with_bias = "ncclAllReduceWithBias", seen "rccl",
        wide |call| enqueue(&Roles::ALL_REDUCE, call);

    // Messages and one-sided calls.
    send = "ncclSend", seen "2.18", wide |call| enqueue(&Roles::SEND, call);
    receive = "ncclRecv", seen "2.18", wide |call| enqueue(&Roles::RECEIVE, call);
    put_signal = "ncclPutSignal", seen "2.29", wide |call| enqueue(&Roles::PUT, call);
    signal = "ncclSignal", seen "2.29", wide |call| enqueue(&Roles::SIGNAL, call);
    wait_signal = "ncclWaitSignal", seen "2.29", wide |call| enqueue(&Roles::WAIT_SIGNAL, call);

    // Groups.
    group_start = "ncclGroupStart", seen "2.18", narrow groups::start;
    group_end = "ncclGroupEnd", seen "2.18", narrow groups::end;
    group_simulate_end = "ncclGroupSimulateEnd", seen "2.22", narrow groups::simulate_end;

    // Communicators: created, created from another one, ended.
    init_rank = "ncclCommInitRank", seen "2.18", by_id |call| communicators::init_rank(call, false);
    init_rank_config = "ncclCommInitRankConfig", seen "2.18", by_id |call| communicators::init_rank(call, true);
    init_rank_scalable = "ncclCommInitRankScalable", seen "2.23", wide communicators::init_rank_scalable;
    init_all = "ncclCommInitAll", seen "2.18", narrow communicators::init_all;
    split = "ncclCommSplit", seen "2.18", narrow communicators::split;
    shrink = "ncclCommShrink", seen "2.27", wide communicators::shrink;
    grow = "ncclCommGrow", seen "2.29", wide communicators::grow;
    finalize = "ncclCommFinalize", seen "2.18", narrow |call| end(call, Ending::Left);
    destroy = "ncclCommDestroy", seen "2.18", narrow |call| end(call, Ending::Destroyed);
    abort = "ncclCommAbort", seen "2.18", narrow |call| end(call, Ending::Aborted);
    revoke = "ncclCommRevoke", seen "2.28", narrow |call| end(call, Ending::Left);
    async_error = "ncclCommGetAsyncError", seen "2.18", narrow failures::asked;

    // Memory.
    allocate = "ncclMemAlloc", seen "2.19", narrow memory::allocate;
    free = "ncclMemFree", seen "2.19", narrow memory::free;
    register = "ncclCommRegister", seen "2.19", narrow memory::register;
    deregister = "ncclCommDeregister", seen "2.19", narrow memory::deregister;
    register_window = "ncclCommWindowRegister", seen "2.27", narrow memory::register_window;
    deregister_window = "ncclCommWindowDeregister", seen "2.27", narrow memory::deregister_window;
    suspend = "ncclCommSuspend", seen "2.29", narrow memory::suspend;
    resume = "ncclCommResume", seen "2.29", narrow memory::resume;
}

/// Public functions that are deliberately not intercepted, and the reason. Each is given by the start of its name after
/// `nccl`. The coverage test fails on a function that is neither a row nor listed here.
pub static EXCLUDED: &[(&str, &str)] = &[
    ("GetVersion", "asks"),
    ("GetErrorString", "asks"),
    ("GetLastError", "asks"),
    (
        "GetUniqueId",
        "makes an id; what counts is the communicator made with it",
    ),
    ("CommGetUniqueId", "the same, for a communicator that grows"),
    ("CommCount", "asks"),
    ("CommCuDevice", "asks"),
    ("CommUserRank", "asks"),
    ("CommMemStats", "asks"),
    ("CommQueryProperties", "asks"),
    ("WinGetUserPtr", "asks"),
    ("RedOp", "makes or forgets a reduction operator: no communication"),
    ("Param", "reads the library's parameters"),
    ("ResetDebugInit", "the library's own log"),
    ("SetEncryption", "a setting"),
    (
        "DevComm",
        "for kernels that communicate by themselves: no call to time",
    ),
    ("Team", "arithmetic on ranks"),
    ("Lsa", "sizes for kernels that communicate by themselves"),
    ("LLA2A", "sizes for kernels that communicate by themselves"),
    ("Gin", "sizes for kernels that communicate by themselves"),
    ("GetLsa", "addresses for kernels that communicate by themselves"),
    (
        "GetMultimem",
        "addresses for kernels that communicate by themselves",
    ),
    ("GetPeer", "addresses for kernels that communicate by themselves"),
    ("GetCft", "addresses for kernels that communicate by themselves"),
];
