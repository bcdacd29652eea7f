// A training-like job on the doubles of the driver and of NCCL. If a double of CUPTI exists, the job loads it as
// PyTorch does and does not use it.
//   cupti_job RANK SIZE STORE [STEPS [OVERLAP]]
// A step has a copy to the device and 20 kernels of 100 us, an all-reduce and a group of two, a set, and a graph of
// five kernels. Then it waits for all of them. OVERLAP percent of the all-reduces' time overlap with the kernels, as
// far as the machine permits. 100 (the default) launches everything at once. 0 launches all-reduces after the kernels
// have ended, and always continues after them.
// Environment:
//   CUPTI_JOB_LIBRARY=NAME  the CUPTI to load, default libcupti.so.13; none if that does not exist
//   CUPTI_JOB_OTHER=1       in the middle third of the steps another profiler works as Kineto does, through the
//                           functions that the dynamic linker finds first. Its result is a separate line. Words in the
//                           value:
//                           "subscribe": it also subscribes, as older versions do;
//                           "direct": it takes its functions from the library itself, past any preload, and reads
//                           whatever buffer it is given;
//                           "free": it frees whatever buffer it is given;
//                           "second": it only subscribes by the second interface and receives callbacks for calls
//   CUPTI_JOB_FINALIZE=1    after the second third of the steps another thread ends CUPTI
//   CUPTI_JOB_FORK=1        forks in the middle: one child ends by _exit, the next by exit
//   CUPTI_JOB_CHILD=1       this process is not the job. It records a little without CUDA and forks. The child is the
//                           job
//   CUPTI_JOB_LATE=RANK     this rank starts every tenth step 10 ms late
//   CUPTI_JOB_DENSE=N       N additional kernels in a step, of a microsecond each
//   CUPTI_JOB_CAPTURE=1     another thread keeps a stream in capture all the time
//   CUPTI_JOB_LINGER=1      the process takes another tenth of a second after all libraries have finished
//   CUPTI_JOB_EXIT=HOW      exit, _exit or kill, directly after the last step. Otherwise the job destroys its
//                           communicator and returns
// Its last lines report the end time of the steps and what was enabled then. They also report the number of launches,
// and the findings of CUPTI's double about its users.
#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "../doubles/cupti/cupti_double.h"
#include "../doubles/nccl/cuda_double.h"
#include "nccl_rank.h"

// ---- libraries ------------------------------------------------------------------------------------------------------

static void* driver;
static void* tracer;

#define DRIVER(name) reinterpret_cast<decltype(&name)>(inDriver(#name))
static void* inDriver(const char* name) {
  void* found = dlsym(driver, name);
  needed(found != nullptr, __FILE__, __LINE__, name);
  return found;
}

static bool otherIs(const char* word) {
  const char* words = std::getenv("CUPTI_JOB_OTHER");
  return words != nullptr && std::strstr(words, word) != nullptr;
}

// Returns a function of CUPTI as torch's libraries find it: a preloaded library has precedence.
template <typename... Arguments>
static int cuptiCall(const char* name, Arguments... arguments) {
  static const bool isDirect = otherIs("direct");
  void* found = isDirect ? nullptr : dlsym(RTLD_DEFAULT, name);
  if (found == nullptr) found = dlsym(tracer, name);
  needed(found != nullptr, __FILE__, __LINE__, name);
  return reinterpret_cast<int (*)(Arguments...)>(found)(arguments...);
}

template <typename Answer>
static Answer toldByDouble(const char* name) {
  void* found = tracer != nullptr ? dlsym(tracer, name) : nullptr;
  return found != nullptr ? reinterpret_cast<Answer (*)()>(found)() : Answer();
}

static int64_t rawNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static uint64_t wallClock() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000ULL + static_cast<uint64_t>(now.tv_nsec);
}

// ---- kernels --------------------------------------------------------------------------------------------------------

static constexpr int64_t kKernelNs = 100000;
static const DoubleFunction kFunctions[] = {
    {"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEENS_6detail5ArrayIPcLi3EEEEEviT0_T1_", kKernelNs},
    {"_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_7MeanOpsIffffEEjfLi4EEEEEvT1_", kKernelNs},
    {"_ZN5flash16flash_fwd_kernelI23Flash_fwd_kernel_traitsILi128ELi128ELi64ELi4ELb0ELb0EN7cutlass10bfloat16_tEELb0ELb1ELb0ELb0ELb1ELb1ELb0ELb0EEEv16Flash_fwd_params",
     kKernelNs},
    {"_ZN2at6native12_GLOBAL__N_125multi_tensor_apply_kernelINS0_32FusedOptimizerTensorListMetadataILi4EEENS0_20FusedAdamMathFunctorIfLi4ELNS0_9ADAM_MODEE1ELb0EEEJPfdddddbS8_S8_EEEvT_T0_DpT1_",
     kKernelNs},
    {"_ZN2at6native27unrolled_elementwise_kernelILi128ENS0_13BinaryFunctorIN3c108BFloat16ES4_S4_NS0_15binary_internal10MulFunctorIfEEEENS_6detail5ArrayIPcLi3EEELi4ENS0_23TrivialOffsetCalculatorILi2EjEENSD_ILi1EjEENS0_6memory12LoadWithCastILi2EEENSG_13StoreWithCastILi1EEEEEviT0_T1_T3_T4_T5_T6_",
     kKernelNs},
    // Names as long as those of real templates.
    {"_ZN7cutlass6device7Kernel2INS_4gemm6kernel4GemmINS2_11threadblock13MmaMultistageINS_9GemmShapeILi128ELi256ELi32EEENS_9transform11threadblock28PredicatedTileAccessIteratorINS_11MatrixShapeILi128ELi32EEENS_10bfloat16_tENS_6layout8RowMajorELi1ENS9_29PitchLinearWarpRakedThreadMapINSC_ILi32ELi128EEELi128ENSC_ILi4ELi8EEELi8EEENS_12AlignedArrayISE_Li8ELi16EEELb0EEENSA_25RegularTileAccessIteratorISD_SE_SG_Li0ESK_Li16EEELi1ENSB_INSC_ILi32ELi256EEESE_NSF_11ColumnMajorELi0ENSH_ISQ_Li128ENSC_ILi8ELi4EEELi8EEESM_Lb0EEENSO_ISQ_SE_SR_Li1EST_Li16EEELi1EfSG_NS5_9MmaPolicyINS2_4warp11MmaTensorOpINS7_ILi64ELi64ELi32EEESE_SG_SE_SR_fSG_NSX_17MmaTensorOpPolicyINS_4arch4Sm90ENS7_ILi16ELi8ELi16EEENS11_13OpMultiplyAddEfEELi1ELb0EEENSC_ILi0ELi0EEES17_Li1EEELi4ELi0EEENS_8epilogue6thread17LinearCombinationISE_Li8EffLi0ELi2EEENS5_30GemmIdentityThreadblockSwizzleILi8EEELb0EEEEEvNS0_10GemmParamsIT_EE",
     kKernelNs},
    {"_ZN7cutlass6device7Kernel2INS_4gemm6kernel4GemmINS2_11threadblock13MmaMultistageINS_9GemmShapeILi128ELi128ELi64EEENS_9transform11threadblock28PredicatedTileAccessIteratorINS_11MatrixShapeILi128ELi64EEENS_10bfloat16_tENS_6layout8RowMajorELi1ENS9_29PitchLinearWarpRakedThreadMapINSC_ILi64ELi128EEELi128ENSC_ILi4ELi8EEELi8EEENS_12AlignedArrayISE_Li8ELi16EEELb0EEENSA_25RegularTileAccessIteratorISD_SE_SG_Li0ESK_Li16EEELi1ENSB_INSC_ILi64ELi128EEESE_NSF_11ColumnMajorELi0ENSH_ISQ_Li128ENSC_ILi8ELi4EEELi8EEESM_Lb0EEENSO_ISQ_SE_SR_Li1EST_Li16EEELi1EfSG_NS5_9MmaPolicyINS2_4warp11MmaTensorOpINS7_ILi64ELi64ELi64EEESE_SG_SE_SR_fSG_NSX_17MmaTensorOpPolicyINS_4arch4Sm90ENS7_ILi16ELi8ELi16EEENS11_13OpMultiplyAddEfEELi1ELb0EEENSC_ILi0ELi0EEES17_Li1EEELi3ELi0EEENS_8epilogue6thread17LinearCombinationISE_Li8EffLi0ELi2EEENS5_30GemmIdentityThreadblockSwizzleILi8EEELb0EEEEEvNS0_10GemmParamsIT_EE",
     kKernelNs},
    // A name that is not C++.
    {"triton_poi_fused_add_mul_native_layer_norm_3", kKernelNs},
};
static constexpr int kKernels = 20;
static const DoubleFunction kShort = {"_ZN2at6native13short_kernelEv", 1000};
static const DoubleFunction kInGraph = {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas", 40000};
static const DoubleNode kNodes[] = {{1, &kInGraph}, {2, &kFunctions[0]}, {3, &kInGraph}, {4, &kFunctions[4]}, {5, &kInGraph}};
static const DoubleGraph kGraph = {17, 5, kNodes};

// ---- another profiler -----------------------------------------------------------------------------------------------

// A profiler like Kineto: private buffers, the wall clock, all activity kinds. It compares the records that it receives
// with the work that the device was given meanwhile.
class Other {
 public:
  void begin() {
    self = this;
    if (otherIs("second")) {
      const cupti::SubscriberParameters parameters = {sizeof parameters, "other", nullptr, 0, 0, {}};
      did(cuptiCall("cuptiSubscribe_v2", &subscriber, called, static_cast<void*>(this), &parameters));
      did(cuptiCall("cuptiEnableDomain", 1u, subscriber, 1u));
      return;
    }
    if (otherIs("subscribe")) did(cuptiCall("cuptiSubscribe", &subscriber, static_cast<cupti::Callback>(nullptr), static_cast<void*>(nullptr)));
    DRIVER(cuDoubleSettle)();
    DRIVER(cuDoubleWatch)(watched);
    first = bothClocks();
    did(cuptiCall("cuptiActivityRegisterTimestampCallback", wallClock));
    did(cuptiCall("cuptiActivityRegisterCallbacks", requested, completed));
    for (const uint32_t kind : kKinds) did(cuptiCall("cuptiActivityEnable", kind));
    begunNs = rawNs();
  }

  // All launched work has ended.
  void end() {
    endedNs = rawNs();
    if (otherIs("second")) {
      did(cuptiCall("cuptiUnsubscribe", subscriber));
      return;
    }
    // Another thread may be capturing.
    auto* exchange = reinterpret_cast<int (*)(int*)>(inDriver("cuThreadExchangeStreamCaptureMode"));
    int mode = 2;
    exchange(&mode);
    did(cuptiCall("cuptiActivityFlushAll", 1u));
    exchange(&mode);
    for (const uint32_t kind : kKinds) did(cuptiCall("cuptiActivityDisable", kind));
    if (subscriber != nullptr) did(cuptiCall("cuptiUnsubscribe", subscriber));
    last = bothClocks();
    DRIVER(cuDoubleSettle)();
    DRIVER(cuDoubleWatch)(nullptr);
  }

  void print() const {
    size_t launched = 0, received = 0, missing = 0, twice = 0, wrong = 0;
    int64_t worst = 0;
    const std::lock_guard<std::mutex> guard(mutex);
    for (const auto& [key, given] : works) {
      launched++;
      const auto [one, behind] = told.equal_range(key);
      if (one == behind) {
        missing++;
        continue;
      }
      received++;
      twice += std::next(one) != behind;
      const int64_t off = std::max(std::abs(static_cast<int64_t>(one->second.start - onWall(given.start))), std::abs(static_cast<int64_t>(one->second.end - onWall(given.end))));
      worst = std::max(worst, off);
      // Tolerance for reading two clocks one after the other, and for interruptions in between.
      wrong += off > 100000 || one->second.name != given.name;
    }
    size_t others = 0;
    for (const auto& [key, what] : told) others += works.find(key) == works.end();
    std::printf("{\"other\":{\"launched\":%zu,\"received\":%zu,\"missing\":%zu,\"twice\":%zu,\"wrong\":%zu,\"worst_ns\":%" PRId64
                ",\"not_launched_then\":%zu,\"calls\":%zu,\"callbacks\":%zu,\"foreign_buffers\":%zu,\"kept_buffers\":%zu,\"result\":%d}}\n",
                launched, received, missing, twice, wrong, worst, others, calls, callbacks.load(), foreign, buffers.size(), result);
    std::fflush(stdout);
  }

 private:
  static constexpr uint32_t kKinds[] = {cupti::kConcurrentKernel, cupti::kCopy, cupti::kRuntime, cupti::kDriver};
  static constexpr size_t kBufferBytes = 256 << 10;
  // Launch and node of a graph, which together are unique on the device.
  using Key = std::pair<uint32_t, uint64_t>;
  struct Told {
    uint64_t start, end;
    std::string name;
  };
  struct Clocks {
    int64_t raw;
    uint64_t wall;
  };

  // Keeps the first result that is an error.
  void did(int returned) {
    if (result == 0) result = returned;
  }

  static Clocks bothClocks() {
    Clocks best = {};
    for (int64_t shortest = INT64_MAX, tries = 0; tries < 20; tries++) {
      const int64_t before = rawNs();
      const uint64_t wall = wallClock();
      const int64_t took = rawNs() - before;
      if (took < shortest) shortest = took, best = {before + took / 2, wall};
    }
    return best;
  }

  uint64_t onWall(uint64_t raw) const {
    const double rate = static_cast<double>(last.wall - first.wall) / static_cast<double>(last.raw - first.raw);
    return first.wall + static_cast<uint64_t>(static_cast<int64_t>(static_cast<double>(static_cast<int64_t>(raw) - first.raw) * rate));
  }

  static void requested(uint8_t** buffer, size_t* size, size_t* most) {
    *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
    *size = kBufferBytes, *most = 0;
    const std::lock_guard<std::mutex> guard(self->mutex);
    self->buffers.push_back(*buffer);
  }

  static void completed(void*, uint32_t, uint8_t* buffer, size_t, size_t valid) {
    static const bool isDirect = otherIs("direct"), freesAll = otherIs("free");
    const std::lock_guard<std::mutex> guard(self->mutex);
    const auto found = std::find(self->buffers.begin(), self->buffers.end(), buffer);
    const bool isForeign = found == self->buffers.end();
    if (isForeign) self->foreign++;
    else self->buffers.erase(found);
    if (isForeign && !isDirect && !freesAll) return;
    for (uint8_t* record = nullptr; cuptiCall("cuptiActivityGetNextRecord", buffer, valid, &record) == 0;) self->take(record);
    if (!isForeign || freesAll) std::free(buffer);
  }

  static void called(void* other, uint32_t, uint32_t, const void*) { static_cast<Other*>(other)->callbacks++; }

  void take(const uint8_t* record) {
    uint32_t kind;
    std::memcpy(&kind, record, sizeof kind);
    if (kind == cupti::kConcurrentKernel) {
      const auto* kernel = reinterpret_cast<const cupti::Kernel*>(record);
      told.insert({{kernel->correlation, kernel->graphNode}, {kernel->start, kernel->end, kernel->name}});
    } else if (kind == cupti::kCopy) {
      const auto* copy = reinterpret_cast<const cupti::Copy*>(record);
      told.insert({{copy->correlation, copy->graphNode}, {copy->start, copy->end, copy->direction == 1 ? "HtoD" : "DtoH"}});
    } else {
      calls++;
    }
  }

  static void watched(const DoubleWork* work) {
    if (work->kind == kDoubleSet) return;
    const std::lock_guard<std::mutex> guard(self->mutex);
    self->works[{work->correlation, work->node}] = {static_cast<uint64_t>(work->startNs), static_cast<uint64_t>(work->stopNs), work->name};
  }

  static Other* self;
  mutable std::mutex mutex;
  std::vector<uint8_t*> buffers;
  std::map<Key, Told> works;
  std::multimap<Key, Told> told;
  Clocks first, last;
  int64_t begunNs = 0, endedNs = 0;
  size_t calls = 0, foreign = 0;
  std::atomic<size_t> callbacks = 0;
  int result = 0;
  void* subscriber = nullptr;
};
Other* Other::self;

// ---- the job --------------------------------------------------------------------------------------------------------

static pid_t owner;

static void account() {
  if (getpid() != owner || driver == nullptr) return;
  std::printf("{\"launched\":%" PRIu64 ",\"violations\":%d,\"driver_violations\":%d,\"outstanding\":%d,\"written\":%" PRIu64 ",\"kinds\":%" PRIu64 ",\"stuck\":%" PRIu64 "}\n",
              DRIVER(cuDoubleLaunched)(), toldByDouble<int>("cuptiDoubleViolations"), DRIVER(cuDoubleViolations)(), toldByDouble<int>("cuptiDoubleOutstanding"),
              toldByDouble<uint64_t>("cuptiDoubleRecords"), toldByDouble<uint64_t>("cuptiDoubleKinds"),
              toldByDouble<uint64_t>("cuptiDoubleStuck"));
  std::fflush(stdout);
}

static void child(bool isQuick) {
  std::fflush(stdout);
  const pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    if (isQuick) _exit(0);
    std::exit(0);
  }
  int status = -1;
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

// Records something before a driver exists. From here on this process is a child, and its parent waits for it.
static void becomeChild() {
  for (int at = 0; at < 10; at++) {
    void* memory = nullptr;
    NCCL(ncclMemAlloc(&memory, 1 << 20));
    usleep(30000);
    NCCL(ncclMemFree(memory));
  }
  const pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) return;
  int status = -1;
  CHECK(waitpid(pid, &status, 0) == pid);
  std::printf("{\"child\":%d,\"status\":%d}\n", pid, status);
  std::exit(status == 0 ? 0 : 4);
}

// Ends CUPTI, concurrently with the steps.
static void finalize() {
  const int64_t begunNs = rawNs();
  const uint64_t launched = DRIVER(cuDoubleLaunched)();
  const int result = cuptiCall("cuptiFinalize");
  std::printf("{\"finalized\":{\"begun_ns\":%" PRId64 ",\"launched\":%" PRIu64 ",\"result\":%d}}\n", begunNs, launched, result);
  std::fflush(stdout);
}

// Pauses or resumes the recording, if this program is recorded. The device is idle.
static void recording(const char* name) {
  auto* const change = reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, name));
  if (change != nullptr) change();
  std::printf("{\"%s\":{\"launched\":%" PRIu64 "}}\n", name, DRIVER(cuDoubleLaunched)());
  std::fflush(stdout);
}

int main(int argc, char** argv) {
  if (std::getenv("CUPTI_JOB_CHILD") != nullptr) becomeChild();
  owner = getpid();
  if (std::getenv("CUPTI_JOB_LINGER") != nullptr) std::atexit([] { usleep(100000); });
  // Registered first, so that it runs after everything else at exit.
  std::atexit(account);
  // The default is a device without NCCL's profiler plugin.
  setenv("NCCL_DOUBLE_PROFILER", "0", 0);
  const NcclRank self(argc, argv);
  const int steps = argc > 4 ? std::atoi(argv[4]) : 30;
  const int overlap = argc > 5 ? std::atoi(argv[5]) : 100;
  const char* library = std::getenv("CUPTI_JOB_LIBRARY");
  tracer = dlopen(library != nullptr ? library : "libcupti.so.13", RTLD_NOW | RTLD_LOCAL);
  driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  CHECK(driver != nullptr);
  auto* const launch = DRIVER(cuLaunchKernel);
  auto* const toDevice = DRIVER(cuMemcpyHtoDAsync_v2);
  auto* const synchronize = DRIVER(cuStreamSynchronize);
  CHECK(DRIVER(cuInit)(0) == 0);
  DRIVER(cuDoubleUse)(0);
  const ncclUniqueId id = self.share("id");
  ncclComm_t comm;
  NCCL(ncclCommInitRank(&comm, self.size, id, self.rank));
  // The recorder starts concurrently. On a busy machine it may take longer than a communicator waits for it.
  usleep(200000);

  static char buffer[1 << 16];
  static DoubleStream compute, communication, captured;
  std::atomic<bool> isOver = false;
  std::thread capturer;
  if (std::getenv("CUPTI_JOB_CAPTURE") != nullptr) {
    capturer = std::thread([&] {
      DRIVER(cuDoubleUse)(0);
      while (!isOver) {
        __atomic_store_n(&captured.capturing, 1, __ATOMIC_RELEASE);
        CHECK(launch(&kFunctions[0], 8, 1, 1, 128, 1, 1, 0, &captured, nullptr, nullptr) == 0);
        usleep(3000);
        __atomic_store_n(&captured.capturing, 0, __ATOMIC_RELEASE);
        usleep(300);
      }
    });
  }
  const bool hasOther = std::getenv("CUPTI_JOB_OTHER") != nullptr && tracer != nullptr;
  const bool pauses = std::getenv("CUPTI_JOB_PAUSE") != nullptr;
  const bool forks = std::getenv("CUPTI_JOB_FORK") != nullptr;
  const bool finalizes = std::getenv("CUPTI_JOB_FINALIZE") != nullptr;
  std::thread finalizer;
  const int dense = std::getenv("CUPTI_JOB_DENSE") != nullptr ? std::atoi(std::getenv("CUPTI_JOB_DENSE")) : 0;
  Other other;

  const int late = std::getenv("CUPTI_JOB_LATE") != nullptr ? std::atoi(std::getenv("CUPTI_JOB_LATE")) : -1;
  const char* kernelUs = std::getenv("NCCL_DOUBLE_KERNEL_US");
  // Total time of the three all-reduces. They start when this much of the kernels' time is left.
  const int64_t communicationNs = 3000LL * (kernelUs != nullptr ? std::atoi(kernelUs) : 300);
  const int64_t lateNs = kKernels * kKernelNs - communicationNs * overlap / 100;
  for (int step = 0; step < steps; step++) {
    if (hasOther && step == steps / 3) other.begin();
    if (self.rank == late && step % 10 == 5) usleep(10000);
    const int64_t begun = rawNs();
    CHECK(toDevice(0x7f0000000000, buffer, 1 << 20, &compute) == 0);
    for (int at = 0; at < kKernels; at++) {
      const DoubleFunction& function = kFunctions[at % static_cast<int>(std::size(kFunctions))];
      CHECK(launch(&function, 64u + static_cast<unsigned>(at), 2, 1, 256, 1, 1, 0, &compute, nullptr, nullptr) == 0);
    }
    for (int at = 0; at < dense; at++) CHECK(launch(&kShort, 1, 1, 1, 32, 1, 1, 0, &compute, nullptr, nullptr) == 0);
    if (overlap == 0) {
      CHECK(synchronize(&compute) == 0);
    } else if (overlap < 100) {
      while (rawNs() < begun + lateNs) usleep(50);
    }
    NCCL(ncclAllReduce(buffer, buffer, 1 << 14, ncclFloat32, ncclSum, comm, &communication));
    NCCL(ncclGroupStart());
    NCCL(ncclAllReduce(buffer, buffer, 1 << 10, ncclFloat32, ncclSum, comm, &communication));
    NCCL(ncclAllReduce(buffer + 8192, buffer + 8192, 1 << 12, ncclBfloat16, ncclSum, comm, &communication));
    NCCL(ncclGroupEnd());
    // Later work does not overlap with them either.
    if (overlap < 100) CHECK(synchronize(&communication) == 0);
    CHECK(DRIVER(cuMemsetD8Async)(0x7f0000000000, 0, 1 << 22, &compute) == 0);
    CHECK(DRIVER(cuGraphLaunch)(&kGraph, &compute) == 0);
    CHECK(synchronize(&compute) == 0);
    CHECK(synchronize(&communication) == 0);
    if (forks && (step == steps / 2 || step == steps / 2 + 1)) child(step == steps / 2);
    if (pauses && step == steps / 3) recording("rankscope_pause");
    if (pauses && step == steps * 2 / 3) recording("rankscope_resume");
    if (hasOther && step + 1 == steps * 2 / 3) other.end();
    if (finalizes && step + 1 == steps * 2 / 3) finalizer = std::thread(finalize);
  }
  isOver = true;
  if (capturer.joinable()) capturer.join();
  if (finalizer.joinable()) finalizer.join();
  if (hasOther) other.print();
  std::printf("{\"over_ns\":%" PRId64 ",\"kinds_then\":%" PRIu64 "}\n", rawNs(), toldByDouble<uint64_t>("cuptiDoubleKinds"));
  std::fflush(stdout);
  const std::string how = std::getenv("CUPTI_JOB_EXIT") != nullptr ? std::getenv("CUPTI_JOB_EXIT") : "";
  if (how == "_exit" || how == "kill") {
    account();
    DRIVER(cuDoubleTell)();
    if (how == "kill") kill(getpid(), SIGKILL);
    _exit(0);
  }
  if (how == "exit") std::exit(0);
  NCCL(ncclCommDestroy(comm));
  return 0;
}
