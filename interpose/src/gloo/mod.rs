//! Gloo: embedded in PyTorch's wheels, a separate library in distributions. One row per intercepted function.
//!
//! Names, calling conventions and layouts were checked in the wheels of PyTorch 2.4 and 2.15, and in Debian's Gloo 0.5,
//! which Debian's PyTorch 1.13 uses. Three manglings of strings and two of `connectFullMesh` exist.

pub mod buffers;
pub mod collectives;
pub mod contexts;
pub mod evidence;
pub mod messages;
pub mod options;
pub mod rendezvous;

use collectives::collective;
use options as layout;

/// Return value if the function does not exist. No value is meaningful for a C++ function.
const MISSING: usize = 0;

// In rows, "everywhere" means: the wheels of PyTorch 2.4 and 2.15, and Debian's libgloo 0.5.
crate::wrappers! {
    // Collectives: one argument, the options.
    allreduce = "_ZN4gloo9allreduceERKNS_16AllreduceOptionsE", seen "everywhere",
        narrow |call| collective(&layout::ALL_REDUCE, call);
    allgather = "_ZN4gloo9allgatherERNS_16AllgatherOptionsE", seen "everywhere",
        narrow |call| collective(&layout::ALL_GATHER, call);
    allgatherv = "_ZN4gloo10allgathervERNS_17AllgathervOptionsE", seen "everywhere",
        narrow |call| collective(&layout::ALL_GATHER_V, call);
    alltoall = "_ZN4gloo8alltoallERNS_15AlltoallOptionsE", seen "everywhere",
        narrow |call| collective(&layout::ALL_TO_ALL, call);
    alltoallv = "_ZN4gloo9alltoallvERNS_16AlltoallvOptionsE", seen "everywhere",
        narrow |call| collective(&layout::ALL_TO_ALL_V, call);
    barrier = "_ZN4gloo7barrierERNS_14BarrierOptionsE", seen "everywhere",
        narrow |call| collective(&layout::BARRIER, call);
    broadcast = "_ZN4gloo9broadcastERNS_16BroadcastOptionsE", seen "everywhere",
        narrow |call| collective(&layout::BROADCAST, call);
    gather = "_ZN4gloo6gatherERNS_13GatherOptionsE", seen "everywhere",
        narrow |call| collective(&layout::GATHER, call);
    gatherv = "_ZN4gloo7gathervERNS_14GathervOptionsE", seen "libgloo 0.5",
        narrow |call| collective(&layout::GATHER_V, call);
    reduce = "_ZN4gloo6reduceERNS_13ReduceOptionsE", seen "everywhere",
        narrow |call| collective(&layout::REDUCE, call);
    scatter = "_ZN4gloo7scatterERNS_14ScatterOptionsE", seen "everywhere",
        narrow |call| collective(&layout::SCATTER, call);

    // Contexts: created, connected, created from another one, destroyed.
    context_c1 = "_ZN4gloo7ContextC1Eiii", seen "everywhere", narrow contexts::constructed;
    context_c2 = "_ZN4gloo7ContextC2Eiii", seen "everywhere", narrow contexts::constructed;
    context_d1 = "_ZN4gloo7ContextD1Ev", seen "everywhere", narrow contexts::destroyed;
    context_d2 = "_ZN4gloo7ContextD2Ev", seen "everywhere", narrow contexts::destroyed;
    connect_reference = "_ZN4gloo10rendezvous7Context15connectFullMeshERNS0_5StoreERSt10shared_ptrINS_9transport6DeviceEE",
        seen "2.4, libgloo 0.5", narrow rendezvous::connect_by_reference;
    connect_shared = "_ZN4gloo10rendezvous7Context15connectFullMeshESt10shared_ptrINS0_5StoreEERS2_INS_9transport6DeviceEE",
        seen "2.15", narrow rendezvous::connect_by_shared_pointer;
    make_context = "_ZN4gloo10rendezvous14ContextFactory11makeContextERSt10shared_ptrINS_9transport6DeviceEE",
        seen "everywhere", object contexts::created_from_another;

    // Stores: the values that are set and read during a rendezvous identify the communicator.
    gloo_prefix_set = "_ZN4gloo10rendezvous11PrefixStore3setERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKSt6vectorIcS6_E",
        seen "2.15, libgloo 0.5", narrow rendezvous::store_set;
    gloo_prefix_get = "_ZN4gloo10rendezvous11PrefixStore3getERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
        seen "2.15, libgloo 0.5", object rendezvous::store_get;
    gloo_prefix_multi_get = "_ZN4gloo10rendezvous11PrefixStore9multi_getERKSt6vectorINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESaIS8_EE",
        seen "2.15", object rendezvous::store_multi_get;
    gloo_prefix_set_old = "_ZN4gloo10rendezvous11PrefixStore3setERKSsRKSt6vectorIcSaIcEE", seen "2.4",
        narrow rendezvous::store_set_old_string;
    gloo_prefix_get_old = "_ZN4gloo10rendezvous11PrefixStore3getERKSs", seen "2.4", object rendezvous::store_get_old_string;
    gloo_prefix_multi_get_old = "_ZN4gloo10rendezvous11PrefixStore9multi_getERKSt6vectorISsSaISsEE", seen "2.4",
        object rendezvous::store_multi_get_old_string;
    gloo_file_set = "_ZN4gloo10rendezvous9FileStore3setERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKSt6vectorIcS6_E",
        seen "libgloo 0.5", narrow rendezvous::store_set;
    gloo_file_get = "_ZN4gloo10rendezvous9FileStore3getERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
        seen "libgloo 0.5", object rendezvous::store_get;
    gloo_hash_set = "_ZN4gloo10rendezvous9HashStore3setERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKSt6vectorIcS6_E",
        seen "libgloo 0.5", narrow rendezvous::store_set;
    gloo_hash_get = "_ZN4gloo10rendezvous9HashStore3getERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
        seen "libgloo 0.5", object rendezvous::store_get;
    gloo_redis_set = "_ZN4gloo10rendezvous10RedisStore3setERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKSt6vectorIcS6_E",
        seen "libgloo 0.5", narrow rendezvous::store_set;
    gloo_redis_get = "_ZN4gloo10rendezvous10RedisStore3getERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
        seen "libgloo 0.5", object rendezvous::store_get;

    // Messages through unbound buffers.
    create_buffer = "_ZN4gloo7Context19createUnboundBufferEPvm", seen "everywhere", object messages::created;
    send = "_ZN4gloo9transport3tcp13UnboundBuffer4sendEimmm", seen "everywhere", narrow messages::send;
    receive = "_ZN4gloo9transport3tcp13UnboundBuffer4recvEimmm", seen "everywhere", narrow messages::receive;
    receive_any = "_ZN4gloo9transport3tcp13UnboundBuffer4recvESt6vectorIiSaIiEEmmm", seen "everywhere",
        narrow messages::receive_from_any;
    wait_send = "_ZN4gloo9transport3tcp13UnboundBuffer8waitSendEPiNSt6chrono8durationIlSt5ratioILl1ELl1000EEEE",
        seen "everywhere", narrow messages::wait_send;
    wait_receive = "_ZN4gloo9transport3tcp13UnboundBuffer8waitRecvEPiNSt6chrono8durationIlSt5ratioILl1ELl1000EEEE",
        seen "everywhere", narrow messages::wait_receive;
}

/// Exported `gloo::` functions that look like communication and are deliberately not intercepted, with the reason. The
/// coverage test fails on a function that is neither a row nor listed here.
pub static EXCLUDED: &[(&str, &str)] = &[
    (
        "gloo::AllreduceLocal<",
        "reduces buffers of one process: no communication",
    ),
    (
        "gloo::Algorithm::",
        "base of header-only algorithm classes; their code is compiled into the user's program",
    ),
    (
        "gloo::transport::tcp::Pair::",
        "moves what an unbound buffer posted: recorded there",
    ),
    (
        "gloo::transport::tcp::Buffer::",
        "bound buffers serve the header-only algorithms only",
    ),
    (
        "gloo::transport::ibverbs::Pair::",
        "moves what an unbound buffer posted: recorded there",
    ),
    (
        "gloo::transport::ibverbs::Buffer::",
        "bound buffers serve the header-only algorithms only",
    ),
    (
        "gloo::transport::tcp::Socket::",
        "bytes on a socket, below messages",
    ),
    (
        "gloo::transport::tcp::Context::createUnboundBuffer(",
        "called by gloo::Context's: recorded there",
    ),
    (
        "gloo::transport::ibverbs::Context::createUnboundBuffer(",
        "called by gloo::Context's: recorded there",
    ),
    (
        "gloo::transport::tcp::Loop::run(",
        "the transport's own thread: moves what an unbound buffer posted",
    ),
    (
        "gloo::transport::tcp::Context::recvFromAny",
        "called by the unbound buffer's receive: recorded there",
    ),
];
