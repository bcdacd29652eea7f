//! PyTorch's `c10d`, the layer above Gloo: when the program requested an operation, when a worker executed it, and how
//! long a training thread was blocked for it. Operations themselves are recorded in Gloo, and totals count that layer.

pub mod blocked;
pub mod checkpoint;
pub mod mark;
pub mod process_group;
pub mod work;

use crate::gloo::rendezvous;
use process_group::asked;
use rankscope_ranklog::Operation as O;
use rankscope_ranklog::marks::{CHECKPOINT_LOAD, CHECKPOINT_SAVE, FORWARD_BEGINS, UNUSED_SEARCH};
use rankscope_ranklog::record::BlockedIn as B;

/// Return value if the function does not exist. No value is meaningful for a C++ function.
const MISSING: usize = 0;

crate::wrappers! {
    // Stages of a work object: queued, executed.
    enqueue = "_ZN4c10d16ProcessGroupGloo7enqueueEN3c1013intrusive_ptrINS0_9AsyncWorkENS1_6detail34intrusive_target_default_null_typeIS3_EEEE",
        seen "1.13, 2.4, 2.15", narrow work::enqueued;
    execute_reference = "_ZN4c10d16ProcessGroupGloo9AsyncWork7executeERKN3c1013intrusive_ptrIS1_NS2_6detail34intrusive_target_default_null_typeIS1_EEEE",
        seen "2.4, 2.15", narrow work::executed;
    execute_value = "_ZN4c10d16ProcessGroupGloo9AsyncWork7executeEN3c1013intrusive_ptrIS1_NS2_6detail34intrusive_target_default_null_typeIS1_EEEE",
        seen "1.13", narrow work::executed;

    // Stores that Gloo's stores use. The innermost one receives the whole key.
    c10d_prefix_get = "_ZN4c10d11PrefixStore3getERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
        seen "1.13, 2.15", object rendezvous::store_get;
    c10d_prefix_get_old = "_ZN4c10d11PrefixStore3getERKSs",
        seen "2.4", object rendezvous::store_get_old_string;
    c10d_prefix_set = "_ZN4c10d11PrefixStore3setERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKSt6vectorIhSaIhEE",
        seen "1.13, 2.15", narrow rendezvous::store_set;
    c10d_prefix_set_old = "_ZN4c10d11PrefixStore3setERKSsRKSt6vectorIhSaIhEE",
        seen "2.4", narrow rendezvous::store_set_old_string;
    c10d_prefix_multi_get = "_ZN4c10d11PrefixStore8multiGetERKSt6vectorINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESaIS7_EE",
        seen "2.15", object rendezvous::store_multi_get;
    c10d_prefix_multi_get_old = "_ZN4c10d11PrefixStore8multiGetERKSt6vectorISsSaISsEE",
        seen "2.4", object rendezvous::store_multi_get_old_string;
    c10d_tcp_get = "_ZN4c10d8TCPStore3getERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
        seen "1.13, 2.15", object rendezvous::store_get;
    c10d_tcp_get_old = "_ZN4c10d8TCPStore3getERKSs",
        seen "2.4", object rendezvous::store_get_old_string;
    c10d_tcp_set = "_ZN4c10d8TCPStore3setERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKSt6vectorIhSaIhEE",
        seen "1.13, 2.15", narrow rendezvous::store_set;
    c10d_tcp_set_old = "_ZN4c10d8TCPStore3setERKSsRKSt6vectorIhSaIhEE",
        seen "2.4", narrow rendezvous::store_set_old_string;
    c10d_tcp_multi_get = "_ZN4c10d8TCPStore8multiGetERKSt6vectorINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESaIS7_EE",
        seen "2.15", object rendezvous::store_multi_get;
    c10d_tcp_multi_get_old = "_ZN4c10d8TCPStore8multiGetERKSt6vectorISsSaISsEE",
        seen "2.4", object rendezvous::store_multi_get_old_string;
    c10d_file_get = "_ZN4c10d9FileStore3getERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
        seen "1.13, 2.15", object rendezvous::store_get;
    c10d_file_get_old = "_ZN4c10d9FileStore3getERKSs",
        seen "2.4", object rendezvous::store_get_old_string;
    c10d_file_set = "_ZN4c10d9FileStore3setERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKSt6vectorIhSaIhEE",
        seen "1.13, 2.15", narrow rendezvous::store_set;
    c10d_file_set_old = "_ZN4c10d9FileStore3setERKSsRKSt6vectorIhSaIhEE",
        seen "2.4", narrow rendezvous::store_set_old_string;
    c10d_hash_get = "_ZN4c10d9HashStore3getERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
        seen "1.13, 2.15", object rendezvous::store_get;
    c10d_hash_get_old = "_ZN4c10d9HashStore3getERKSs",
        seen "2.4", object rendezvous::store_get_old_string;
    c10d_hash_set = "_ZN4c10d9HashStore3setERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKSt6vectorIhSaIhEE",
        seen "1.13, 2.15", narrow rendezvous::store_set;
    c10d_hash_set_old = "_ZN4c10d9HashStore3setERKSsRKSt6vectorIhSaIhEE",
        seen "2.4", narrow rendezvous::store_set_old_string;
    c10d_hash_multi_get = "_ZN4c10d9HashStore8multiGetERKSt6vectorINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESaIS7_EE",
        seen "2.15", object rendezvous::store_multi_get;
    c10d_hash_multi_get_old = "_ZN4c10d9HashStore8multiGetERKSt6vectorISsSaISsEE",
        seen "2.4", object rendezvous::store_multi_get_old_string;

    // Functions that block training threads.
    work_wait = "_ZN4c10d4Work4waitENSt6chrono8durationIlSt5ratioILl1ELl1000EEEE", seen "1.13, 2.4, 2.15",
        narrow |call| blocked::in_work(B::WorkWait, call);
    send_work_wait = "_ZN4c10d16ProcessGroupGloo8SendWork4waitENSt6chrono8durationIlSt5ratioILl1ELl1000EEEE",
        seen "1.13, 2.4, 2.15", narrow |call| blocked::in_work(B::SendWait, call);
    receive_work_wait = "_ZN4c10d16ProcessGroupGloo8RecvWork4waitENSt6chrono8durationIlSt5ratioILl1ELl1000EEEE",
        seen "1.13, 2.4, 2.15", narrow |call| blocked::in_work(B::ReceiveWait, call);
    finalize_backward = "_ZN4c10d7Reducer17finalize_backwardEv", seen "1.13, 2.4, 2.15",
        narrow |call| blocked::elsewhere(B::ReducerFinalize, call);
    monitored_barrier = "_ZN4c10d16ProcessGroupGloo16monitoredBarrierERKNS_14BarrierOptionsEb", seen "1.13, 2.4, 2.15",
        narrow |call| blocked::elsewhere(B::ProcessGroup, call);

    // Work of the reducer other than waiting.
    search_unused_parameters = "_ZN4c10d7Reducer24search_unused_parametersERKSt6vectorIN2at6TensorESaIS3_EE",
        seen "1.13, 2.15", narrow |call| mark::around(UNUSED_SEARCH, call);

    // Start of the next forward pass.
    prepare_for_forward = "_ZN4c10d7Reducer19prepare_for_forwardEv", seen "1.13, 2.15",
        narrow |call| mark::around(FORWARD_BEGINS, call);

    // Files that torch.save writes and torch.load reads.
    writer_of_file = "_ZN6caffe29serialize19PyTorchStreamWriterC1ERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEbm",
        seen "2.15", narrow checkpoint::opened;
    writer_of_function = "_ZN6caffe29serialize19PyTorchStreamWriterC1ESt8functionIFmPKvmEEbm",
        seen "2.15", narrow checkpoint::opened;
    writer_of_file_old = "_ZN6caffe29serialize19PyTorchStreamWriterC1ENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
        seen "1.13", narrow checkpoint::opened;
    writer_of_function_old = "_ZN6caffe29serialize19PyTorchStreamWriterC1ERKSt8functionIFmPKvmEE",
        seen "1.13", narrow checkpoint::opened;
    writer_ends = "_ZN6caffe29serialize19PyTorchStreamWriter14writeEndOfFileEv",
        seen "1.13, 2.15", narrow |call| checkpoint::ended(CHECKPOINT_SAVE, call);
    reader_of_file = "_ZN6caffe29serialize19PyTorchStreamReaderC1ERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
        seen "1.13, 2.15", narrow checkpoint::opened;
    reader_of_adapter = "_ZN6caffe29serialize19PyTorchStreamReaderC1ESt10shared_ptrINS0_20ReadAdapterInterfaceEE",
        seen "1.13, 2.15", narrow checkpoint::opened;
    reader_ends = "_ZN6caffe29serialize19PyTorchStreamReaderD1Ev",
        seen "1.13, 2.15", narrow |call| checkpoint::ended(CHECKPOINT_LOAD, call);

    // Requests of the program. They name the operation of the works that are queued inside.
    pg_allreduce = "_ZN4c10d16ProcessGroupGloo9allreduceERSt6vectorIN2at6TensorESaIS3_EERKNS_16AllreduceOptionsE",
        seen "1.13, 2.4, 2.15", object |call| asked(O::AllReduce, call);
    pg_allreduce_sparse = "_ZN4c10d16ProcessGroupGloo16allreduce_sparseERSt6vectorIN2at6TensorESaIS3_EERKNS_16AllreduceOptionsE",
        seen "2.4, 2.15", object |call| asked(O::AllReduce, call);
    pg_allreduce_coalesced = "_ZN4c10d16ProcessGroupGloo19allreduce_coalescedERSt6vectorIN2at6TensorESaIS3_EERKNS_25AllreduceCoalescedOptionsE",
        seen "1.13, 2.4, 2.15", object |call| asked(O::AllReduce, call);
    pg_broadcast = "_ZN4c10d16ProcessGroupGloo9broadcastERSt6vectorIN2at6TensorESaIS3_EERKNS_16BroadcastOptionsE",
        seen "1.13, 2.4, 2.15", object |call| asked(O::Broadcast, call);
    pg_reduce = "_ZN4c10d16ProcessGroupGloo6reduceERSt6vectorIN2at6TensorESaIS3_EERKNS_13ReduceOptionsE",
        seen "1.13, 2.4, 2.15", object |call| asked(O::Reduce, call);
    pg_reduce_scatter = "_ZN4c10d16ProcessGroupGloo14reduce_scatterERSt6vectorIN2at6TensorESaIS3_EERS1_IS5_SaIS5_EERKNS_20ReduceScatterOptionsE",
        seen "1.13, 2.4, 2.15", object |call| asked(O::ReduceScatter, call);
    pg_reduce_scatter_single = "_ZN4c10d16ProcessGroupGloo21reduce_scatter_singleERN2at6TensorES3_RKNS_20ReduceScatterOptionsE",
        seen "2.15", object |call| asked(O::ReduceScatter, call);
    pg_reduce_scatter_base = "_ZN4c10d16ProcessGroupGloo20_reduce_scatter_baseERN2at6TensorES3_RKNS_20ReduceScatterOptionsE",
        seen "2.4", object |call| asked(O::ReduceScatter, call);
    pg_reduce_scatter_single_coalesced = "_ZN4c10d16ProcessGroupGloo31reduce_scatter_single_coalescedERSt6vectorIN2at6TensorESaIS3_EES6_RKNS_20ReduceScatterOptionsE",
        seen "2.15", object |call| asked(O::ReduceScatter, call);
    pg_reduce_scatter_tensor_coalesced = "_ZN4c10d16ProcessGroupGloo31reduce_scatter_tensor_coalescedERSt6vectorIN2at6TensorESaIS3_EES6_RKNS_20ReduceScatterOptionsE",
        seen "2.4", object |call| asked(O::ReduceScatter, call);
    pg_allgather = "_ZN4c10d16ProcessGroupGloo9allgatherERSt6vectorIS1_IN2at6TensorESaIS3_EESaIS5_EERS5_RKNS_16AllgatherOptionsE",
        seen "1.13, 2.4, 2.15", object |call| asked(O::AllGather, call);
    pg_allgather_coalesced = "_ZN4c10d16ProcessGroupGloo19allgather_coalescedERSt6vectorIS1_IN2at6TensorESaIS3_EESaIS5_EERS5_RKNS_16AllgatherOptionsE",
        seen "1.13, 2.4, 2.15", object |call| asked(O::AllGather, call);
    pg_allgather_base = "_ZN4c10d16ProcessGroupGloo15_allgather_baseERN2at6TensorES3_RKNS_16AllgatherOptionsE",
        seen "1.13, 2.4", object |call| asked(O::AllGather, call);
    pg_allgather_into_tensor_coalesced = "_ZN4c10d16ProcessGroupGloo31allgather_into_tensor_coalescedERSt6vectorIN2at6TensorESaIS3_EES6_RKNS_16AllgatherOptionsE",
        seen "2.4", object |call| asked(O::AllGather, call);
    pg_all_gather_single = "_ZN4c10d16ProcessGroupGloo17all_gather_singleERN2at6TensorES3_RKNS_16AllgatherOptionsE",
        seen "2.15", object |call| asked(O::AllGather, call);
    pg_all_gather_single_coalesced = "_ZN4c10d16ProcessGroupGloo27all_gather_single_coalescedERSt6vectorIN2at6TensorESaIS3_EES6_RKNS_16AllgatherOptionsE",
        seen "2.15", object |call| asked(O::AllGather, call);
    pg_gather = "_ZN4c10d16ProcessGroupGloo6gatherERSt6vectorIS1_IN2at6TensorESaIS3_EESaIS5_EERS5_RKNS_13GatherOptionsE",
        seen "1.13, 2.4, 2.15", object |call| asked(O::Gather, call);
    pg_alltoall = "_ZN4c10d16ProcessGroupGloo8alltoallERSt6vectorIN2at6TensorESaIS3_EES6_RKNS_15AllToAllOptionsE",
        seen "2.15", object |call| asked(O::AllToAll, call);
    pg_scatter = "_ZN4c10d16ProcessGroupGloo7scatterERSt6vectorIN2at6TensorESaIS3_EERS1_IS5_SaIS5_EERKNS_14ScatterOptionsE",
        seen "1.13, 2.4, 2.15", object |call| asked(O::Scatter, call);
    pg_barrier = "_ZN4c10d16ProcessGroupGloo7barrierERKNS_14BarrierOptionsE", seen "1.13, 2.4, 2.15",
        object |call| asked(O::Barrier, call);
    pg_all_to_all_single = "_ZN4c10d16ProcessGroupGloo17all_to_all_singleERN2at6TensorES3_RSt6vectorIlSaIlEES7_RKNS_15AllToAllOptionsE",
        seen "2.15", wide_object |call| asked(O::AllToAll, call);
    pg_alltoall_base = "_ZN4c10d16ProcessGroupGloo13alltoall_baseERN2at6TensorES3_RSt6vectorIlSaIlEES7_RKNS_15AllToAllOptionsE",
        seen "1.13, 2.4", wide_object |call| asked(O::AllToAll, call);
}

/// Exported members of `ProcessGroupGloo`, and overrides of `Work::wait`, that are deliberately not intercepted, with
/// the reason. The coverage test fails on one that is neither a row nor listed here.
pub static EXCLUDED: &[(&str, &str)] = &[
    (
        "c10d::ProcessGroupGloo::send(",
        "posts to an unbound buffer: recorded there",
    ),
    (
        "c10d::ProcessGroupGloo::recv(",
        "posts to an unbound buffer: recorded there",
    ),
    (
        "c10d::ProcessGroupGloo::recvAnysource(",
        "posts to an unbound buffer: recorded there",
    ),
    (
        "c10d::ProcessGroupGloo::runLoop(",
        "a worker's loop: each work is recorded as it is executed",
    ),
    (
        "c10d::ProcessGroupGloo::connectContexts(",
        "calls connectFullMesh: recorded there",
    ),
    (
        "c10d::ProcessGroupGloo::reconfigure(",
        "calls connectFullMesh: recorded there",
    ),
    (
        "c10d::ProcessGroupGloo::split(",
        "makes a process group, whose contexts connect: recorded there",
    ),
    (
        "c10d::ProcessGroupGloo::merge(",
        "makes a process group, whose contexts connect: recorded there",
    ),
    (
        "c10d::ProcessGroupGloo::ProcessGroupGloo(",
        "its contexts connect: recorded there",
    ),
    (
        "c10d::ProcessGroupGloo::~ProcessGroupGloo(",
        "its contexts are destroyed: recorded there",
    ),
    (
        "c10d::ProcessGroupGloo::createD",
        "makes a device: no communication",
    ),
    (
        "c10d::ProcessGroupGloo::getContext(",
        "a look-up: no communication",
    ),
    ("c10d::ProcessGroupGloo::nextTag(", "a counter: no communication"),
    (
        "c10d::ProcessGroupGloo::getSequenceNumberForGroup(",
        "a counter: no communication",
    ),
    (
        "c10d::ProcessGroupGloo::setSequenceNumberForGroup(",
        "one store exchange when a group is made, within what the rendezvous costs",
    ),
    (
        "c10d::ProcessGroupGloo::enableCollectivesTiming(",
        "a switch: no communication",
    ),
    (
        "c10d::ProcessGroupGloo::checkInitialized(",
        "a check: no communication",
    ),
    (
        "c10d::ProcessGroupGloo::groupRanks(",
        "a look-up: no communication",
    ),
    (
        "c10d::ProcessGroupGloo::get_reconfigure_handle",
        "a look-up: no communication",
    ),
];
