// Calls every row of the wrapper tables, like a program whose libraries are the double next to it (rows.cc, generated).
// It proves the behaviour of the wrappers alone, and nothing about Gloo or PyTorch.
//
//   driver hot SYMBOL CALLS   one thread calls the row once (its first event). From then on every allocation, lock and
//                             system call on that thread ends the process, while it calls the row CALLS times
//   driver throw              the real function of every row throws. The same exception must arrive here, and the calls
//                             after it must be recorded as if nothing had happened
//   driver price SYMBOL       cost of a call of the row, against the floor (programs/price.h). Prints nothing for rows
//                             that are called when communicators are created or destroyed
//   driver caught WHAT        proves the guards: does what they must catch ("malloc", "lock", "call")
//
// Prints the numbers that the recorder must have kept, for the test that reads the log.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <vector>

extern "C" {
extern const char* const rows_symbols[];
extern const int rows_count;
// Functions that return a C++ object through memory. Its address is the first of the row's arguments here.
extern const bool rows_return_object[];
// Additional behaviour of a double, which by default only returns 1.
extern size_t (*rows_inside)(int row, const size_t* arguments);
}

using Function = size_t (*)(
    size_t, size_t, size_t, size_t, size_t, size_t, size_t, size_t, size_t, size_t, size_t, size_t);

#include "../../programs/price.h"
#include "../guards.h"

// ---- arguments ----------------------------------------------------------------------------------------------------

static bool has(const char* symbol, const char* part) { return strstr(symbol, part) != nullptr; }
static bool starts(const char* symbol, const char* part) { return strncmp(symbol, part, strlen(part)) == 0; }

// The reference-counted std::string of the older ABI: its characters, after length, capacity and count.
struct OldString {
  size_t length, capacity;
  int64_t references;
  char text[24];
};

alignas(64) static unsigned char context[256], options[512], factory[64], object[256], buffer[64];
static size_t bufferSlot, workSlot = 0x7f1234560040;
static int sender = 3;
static std::vector<size_t> counts{8, 16, 24, 32};
static std::vector<int> ranks{0, 2, 3};
static std::string key;
static std::vector<std::string> keys;
static std::vector<char> blob(64, 'b');
static OldString oldKey;
static const char* oldKeyPointer = oldKey.text;
static std::vector<const char*> oldKeys{oldKey.text, oldKey.text};
// NCCL: a communicator, the location of its handle, a stream, an id, a result.
alignas(64) static unsigned char communicator[64], stream[64], uniqueId[128];
static size_t communicatorHandle = 0;
static int answer = 6;

enum class Kind {
  Collective, Cold, Store, Buffer, Post, Complete, Issue, Execute, Blocked, Asked, Enqueue, Group, Memory, Failure, Mark
};

struct Call {
  Kind kind;
  int count;
  size_t arguments[12];
};

template <typename T>
static size_t at(T& value) {
  return reinterpret_cast<size_t>(&value);
}

template <typename T>
static void put(size_t offset, T value) {
  memcpy(options + offset, &value, sizeof value);
}

static void putCounts(size_t offset) { memcpy(options + offset, &counts, 24); }

// Offsets as in the table of the wrappers, checked against the headers of three versions.
static bool fillOptions(const char* symbol, uint32_t tag) {
  struct Layout {
    const char* name;
    size_t tag, elementBytes, elements, in, out;
    std::vector<size_t> vectors;
    size_t root;
  };
  static const Layout layouts[] = {
      {"9allreduceE", 128, 88, 80, 0, 0, {}, 0},    {"9allgatherE", 40, 32, 0, 16, 24, {}, 0},
      {"10allgathervE", 64, 56, 0, 16, 24, {32}, 0}, {"8alltoallE", 40, 32, 0, 16, 24, {}, 0},
      {"9alltoallvE", 136, 128, 0, 16, 24, {32, 56, 80, 104}, 0},
      {"7barrierE", 24, 0, 0, 0, 0, {}, 0},          {"9broadcastE", 52, 40, 32, 16, 24, {}, 48},
      {"6gatherE", 44, 32, 0, 16, 24, {}, 40},       {"7gathervE", 68, 56, 0, 16, 24, {32}, 64},
      {"6reduceE", 88, 40, 32, 16, 24, {}, 48},      {"7scatterE", 60, 48, 0, 0, 40, {}, 56},
  };
  for (const Layout& layout : layouts) {
    if (!starts(symbol + strlen("_ZN4gloo"), layout.name)) continue;
    memset(options, 0, sizeof options);
    put<size_t>(0, at(context));
    put<uint32_t>(layout.tag, tag);
    if (layout.elementBytes) put<size_t>(layout.elementBytes, 4);
    if (layout.elements) put<size_t>(layout.elements, 1000);
    if (layout.in) put<size_t>(layout.in, at(buffer));
    if (layout.out) put<size_t>(layout.out, at(buffer));
    for (size_t offset : layout.vectors) putCounts(offset);
    if (layout.root) put<int32_t>(layout.root, 2);
    return true;
  }
  return false;
}

static size_t memberCounts[4] = {100, 200, 300, 400};

// Arguments by position, as in the public header: 1000 elements of ncclFloat32.
static Call buildNccl(const char* s) {
  const size_t c = at(communicator), to = at(stream), in = at(buffer), out = at(buffer) + 8, count = 1000, type = 7;
  const size_t op = 0, root = 2, more = at(object);
  const char* name = s + strlen("nccl");
  if (starts(name, "AllReduce") || starts(name, "ReduceScatter"))
    return {Kind::Enqueue, 8, {in, out, count, type, op, c, to, more}};
  if (starts(name, "AllToAllv"))
    return {Kind::Enqueue, 9, {in, at(memberCounts), more, out, at(memberCounts), more, type, c, to}};
  if (starts(name, "AllGather") || starts(name, "AlltoAll") || starts(name, "AllToAll")) return {Kind::Enqueue, 7, {in, out, count, type, c, to, more}};
  if (starts(name, "Broadcast") || starts(name, "Gather") || starts(name, "Scatter"))
    return {Kind::Enqueue, 8, {in, out, count, type, root, c, to, more}};
  if (starts(name, "Reduce")) return {Kind::Enqueue, 9, {in, out, count, type, op, root, c, to, more}};
  if (starts(name, "Bcast") || starts(name, "Send") || starts(name, "Recv"))
    return {Kind::Enqueue, 6, {in, count, type, root, c, to}};
  if (starts(name, "PutSignal")) return {Kind::Enqueue, 11, {in, count, type, root, more, 64, 1, 2, 3, c, to}};
  if (starts(name, "Signal")) return {Kind::Enqueue, 6, {root, 1, 2, 3, c, to}};
  if (starts(name, "WaitSignal")) return {Kind::Enqueue, 4, {1, more, c, to}};
  if (starts(name, "GroupStart")) return {Kind::Store, 0, {}};
  if (starts(name, "Group")) return {Kind::Group, 1, {more}};
  if (starts(name, "CommInitRankScalable"))
    return {Kind::Cold, 6, {at(communicatorHandle), 4, 1, 1, at(uniqueId), 0}};
  if (starts(name, "CommInitAll")) return {Kind::Cold, 3, {at(communicatorHandle), 1, 0}};
#if defined(__aarch64__)
  // The address of the id is passed.
  if (starts(name, "CommInitRank")) return {Kind::Cold, 5, {at(communicatorHandle), 4, at(uniqueId), 1, 0}};
#else
  // The id is whatever is on the stack.
  if (starts(name, "CommInitRank")) return {Kind::Cold, 4, {at(communicatorHandle), 4, 1, 0}};
#endif
  if (starts(name, "CommSplit")) return {Kind::Cold, 5, {c, 0, 0, at(communicatorHandle), 0}};
  if (starts(name, "CommShrink")) return {Kind::Cold, 6, {c, 0, 0, at(communicatorHandle), 0, 0}};
  if (starts(name, "CommGrow")) return {Kind::Cold, 6, {c, 5, 0, size_t(-1), at(communicatorHandle), 0}};
  if (starts(name, "CommGetAsyncError")) return {Kind::Failure, 2, {c, at(answer)}};
  if (starts(name, "CommFinalize") || starts(name, "CommDestroy") || starts(name, "CommAbort") || starts(name, "CommRevoke"))
    return {Kind::Cold, 2, {c, 0}};
  if (starts(name, "Mem")) return {Kind::Memory, 2, {more, 4096}};
  if (starts(name, "Comm")) return {Kind::Memory, 4, {c, in, 4096, more}};
  fprintf(stderr, "driver.cc has no arguments for %s\n", s);
  _exit(88);
}

static Call build(const char* s, uint32_t tag) {
  const size_t peer = 2, slot = 77, timeout = 5000;
  if (starts(s, "_ZN4gloo") && has(s, "OptionsE") && !has(s, "rendezvous")) {
    if (fillOptions(s, tag)) return {Kind::Collective, 1, {at(options)}};
  }
  if (has(s, "7ContextC1Eiii") || has(s, "7ContextC2Eiii")) return {Kind::Cold, 4, {at(context), 1, 4, 2}};
  if (has(s, "7ContextD1Ev") || has(s, "7ContextD2Ev")) return {Kind::Cold, 1, {at(context)}};
  if (has(s, "15connectFullMesh")) return {Kind::Cold, 3, {at(context), at(object), at(object)}};
  if (has(s, "11makeContext")) return {Kind::Cold, 3, {at(object), at(factory), at(object)}};
  if (has(s, "Store")) {
    const bool old = has(s, "Ss");
    const size_t one = old ? at(oldKeyPointer) : at(key);
    if (has(s, "3setE")) return {Kind::Store, 3, {at(object), one, at(blob)}};
    if (has(s, "3getE")) return {Kind::Store, 3, {at(blob), at(object), one}};
    if (has(s, "ulti")) return {Kind::Store, 3, {at(blob), at(object), old ? at(oldKeys) : at(keys)}};
  }
  if (has(s, "19createUnboundBuffer")) return {Kind::Buffer, 4, {at(bufferSlot), at(context), at(object), 4096}};
  if (has(s, "13UnboundBuffer4recvESt6vector")) return {Kind::Post, 5, {at(buffer), at(ranks), slot, 0, 512}};
  if (has(s, "13UnboundBuffer4")) return {Kind::Post, 5, {at(buffer), peer, slot, 0, 512}};
  if (has(s, "13UnboundBuffer8wait")) return {Kind::Complete, 3, {at(buffer), at(sender), timeout}};
  if (has(s, "16ProcessGroupGloo7enqueueE")) return {Kind::Issue, 2, {at(object), at(workSlot)}};
  if (has(s, "9AsyncWork7executeE")) return {Kind::Execute, 1, {at(workSlot)}};
  if (has(s, "4waitENSt6chrono")) return {Kind::Blocked, 2, {at(object), timeout}};
  if (has(s, "17finalize_backwardEv")) return {Kind::Blocked, 1, {at(object)}};
  if (has(s, "16monitoredBarrierE")) return {Kind::Blocked, 3, {at(object), at(options), 1}};
  if (has(s, "PyTorchStream"))
    return {has(s, "C1E") ? Kind::Store : Kind::Mark, 3, {at(object), has(s, "function") ? at(blob) : at(key), 1}};
  if (has(s, "19prepare_for_forwardEv")) return {Kind::Mark, 1, {at(object)}};
  if (has(s, "24search_unused_parameters")) return {Kind::Mark, 2, {at(object), at(blob)}};
  // The result, `this`, and the arguments of the operation. The all-to-alls of tensors have one argument on the stack.
  if (starts(s, "_ZN4c10d16ProcessGroupGloo")) {
    const int count = has(s, "17all_to_all_single") || has(s, "13alltoall_base") ? 7 : 5;
    return {Kind::Asked, count, {11, 12, 13, 14, 15, 16, 17, 18, 19, 20}};
  }
  if (starts(s, "nccl")) return buildNccl(s);
  fprintf(stderr, "driver.cc has no arguments for %s\n", s);
  _exit(88);
}

static int rowOf(const char* symbol) {
  for (int row = 0; row < rows_count; row++) {
    if (strcmp(rows_symbols[row], symbol) == 0) return row;
  }
  fprintf(stderr, "no row %s\n", symbol);
  _exit(88);
}

// Returns the function that a program's own call of the symbol would reach: the wrapper, if one is preloaded.
static Function wrapper(const char* symbol) {
  void* address = dlsym(RTLD_DEFAULT, symbol);
  Dl_info info;
  if (!address || !dladdr(address, &info) || !has(info.dli_fname, "librankscope")) {
    fprintf(stderr, "%s is not the preloaded wrapper\n", symbol);
    _exit(88);
  }
  return reinterpret_cast<Function>(address);
}

#if defined(__aarch64__)
// Calls a function that returns an object: the address of its memory is in x8. The jump has no frame, so exceptions pass.
extern "C" size_t callForObject(size_t, size_t, size_t, size_t, size_t, size_t, size_t, Function);
asm(".globl callForObject\n"
    "callForObject:\n"
    "mov x8, x0\nmov x0, x1\nmov x1, x2\nmov x2, x3\nmov x3, x4\nmov x4, x5\nmov x5, x6\n"
    "mov x16, x7\nbr x16\n");
#endif

static size_t call(Function function, const size_t* a, bool returnsObject) {
#if defined(__aarch64__)
  if (returnsObject) return callForObject(a[0], a[1], a[2], a[3], a[4], a[5], a[6], function);
#endif
  // Elsewhere the address is passed like a first argument.
  (void)returnsObject;
  return function(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]);
}

struct Row {
  int number;
  Function function;
  Call its;
  explicit Row(const char* symbol, uint32_t tag = 9)
      : number(rowOf(symbol)), function(wrapper(symbol)), its(build(symbol, tag)) {}
  size_t operator()() const { return call(function, its.arguments, rows_return_object[number]); }
};

static constexpr const char* kBarrier = "_ZN4gloo7barrierERNS_14BarrierOptionsE";
static constexpr const char* kConstructor = "_ZN4gloo7ContextC2Eiii";
static constexpr const char* kConnect =
    "_ZN4gloo10rendezvous7Context15connectFullMeshERNS0_5StoreERSt10shared_ptrINS_9transport6DeviceEE";
static constexpr const char* kMakeContext =
    "_ZN4gloo10rendezvous14ContextFactory11makeContextERSt10shared_ptrINS_9transport6DeviceEE";
static constexpr const char* kCreate = "_ZN4gloo7Context19createUnboundBufferEPvm";
static constexpr const char* kSend = "_ZN4gloo9transport3tcp13UnboundBuffer4sendEimmm";
static constexpr const char* kReceive = "_ZN4gloo9transport3tcp13UnboundBuffer4recvEimmm";
static constexpr const char* kWaitReceive =
    "_ZN4gloo9transport3tcp13UnboundBuffer8waitRecvEPiNSt6chrono8durationIlSt5ratioILl1ELl1000EEEE";
static constexpr const char* kEnqueue =
    "_ZN4c10d16ProcessGroupGloo7enqueueEN3c1013intrusive_ptrINS0_9AsyncWorkENS1_6detail34intrusive_target_default_null_"
    "typeIS3_EEEE";
static constexpr const char* kExecute =
    "_ZN4c10d16ProcessGroupGloo9AsyncWork7executeERKN3c1013intrusive_ptrIS1_NS2_6detail34intrusive_target_default_null_"
    "typeIS1_EEEE";
static constexpr const char* kInitialise = "ncclCommInitRankScalable";
static constexpr const char* kGroupStart = "ncclGroupStart";
static constexpr const char* kAllReduce = "ncclAllReduce";
static constexpr const char* kAllGather = "ncclAllGather";
static constexpr const char* kWorkWait = "_ZN4c10d4Work4waitENSt6chrono8durationIlSt5ratioILl1ELl1000EEEE";

// Result of NCCL's functions while a communicator is created: everything succeeds.
static size_t succeed(int row, const size_t* arguments) {
  if (strcmp(rows_symbols[row], kInitialise) == 0) {
    const size_t handle = at(communicator);
    memcpy(reinterpret_cast<void*>(arguments[0]), &handle, sizeof handle);
  }
  return 0;
}

// Creates a connected context of four members, in which this is number 1, one of its buffers, and such a communicator
// of NCCL.
static void connectContext() {
  size_t (*inside)(int, const size_t*) = rows_inside;
  rows_inside = nullptr;
  Row{kConstructor}();
  Row{kConnect}();
  Row{kCreate}();
  rows_inside = succeed;
  communicatorHandle = 0;
  Row{kInitialise}();
  rows_inside = inside;
}

static void prepare() {
  dup2(2, kComplaints);
  memset(&oldKey, 0, sizeof oldKey);
  strcpy(oldKey.text, "0/cpu//0/0");
  oldKey.length = strlen(oldKey.text);
  key = "a key that is too long for the string itself/0";
  keys = {key, key};
  bufferSlot = at(buffer);
  const size_t bytes = 4096;
  memcpy(buffer + 16, &bytes, 8);
  connectContext();
  // makeContext waits for the recorder's start. It has no parent here, so it does nothing else.
  const Row make(kMakeContext);
  for (int attempt = 0; attempt < 100; attempt++) make();
  // From here on the factory belongs to the context.
  const size_t parent = at(context);
  memcpy(factory, &parent, 8);
}

// ---- hot ----------------------------------------------------------------------------------------------------------

static const Row *nestedGroupStart, *nestedAllGather;
static const Row *theRow, *nestedSend, *nestedReceive, *nestedWait, *nestedCreate, *nestedEnqueue, *nestedBarrier;
static long calls;
static std::atomic<int> done{0};
// Success for callers of NCCL, which read 32 bits.
static const size_t kResult = size_t(0x5EED) << 32;

static void checkArguments(const Row& row, const size_t* arguments) {
  for (int i = 0; i < row.its.count; i++) {
    if (arguments[i] != row.its.arguments[i]) caught("another argument than was passed, number", i);
  }
}

// Nested calls of the real functions that are relevant here. A collective sends messages, a work calls a collective, a
// process group queues works. All of them pass through the wrappers, as PyTorch does through its PLT and vtables.
static size_t hotInside(int number, const size_t* arguments) {
  // Preparing or nested calls return success for callers of NCCL.
  if (number != theRow->number) return kResult;
  checkArguments(*theRow, arguments);
  static thread_local bool nested = false;
  if (!nested) {
    nested = true;
    switch (theRow->its.kind) {
      case Kind::Collective:
        (*nestedCreate)(), (*nestedReceive)(), (*nestedSend)(), (*nestedWait)();
        break;
      case Kind::Execute:
        (*nestedBarrier)();
        break;
      case Kind::Asked:
        (*nestedEnqueue)();
        break;
      case Kind::Enqueue:
        (*nestedGroupStart)(), (*nestedAllGather)();
        break;
      default:
        break;
    }
    nested = false;
  }
  return kResult;
}

static void* hotThread(void*) {
  const Row barrier(kBarrier);
  // The thread's first event: it allocates its lane here.
  barrier();
  if (theRow->its.kind == Kind::Collective) fillOptions(rows_symbols[theRow->number], 9);
  const bool isGroup = theRow->its.kind == Kind::Group;
  if (isGroup) (*nestedGroupStart)();
  (*theRow)();
  forbidSystemCalls();
  guarded = true;
  for (long i = 0; i < calls; i++) {
    if (isGroup) (*nestedGroupStart)();
    if ((*theRow)() != kResult) caught("another result than was returned, call", i);
  }
  guarded = false;
  done.store(1);
  // Not by pthread_exit, which needs system calls.
  syscall(SYS_exit, 0);
  return nullptr;
}

static int hot(const char* symbol) {
  prepare();
  const Row row(symbol), send(kSend), receive(kReceive), wait(kWaitReceive), create(kCreate), enqueue(kEnqueue);
  const Row barrier(kBarrier), groupStart(kGroupStart), allGather(kAllGather);
  nestedGroupStart = &groupStart, nestedAllGather = &allGather;
  current = symbol;
  theRow = &row, nestedSend = &send, nestedReceive = &receive, nestedWait = &wait, nestedCreate = &create;
  nestedEnqueue = &enqueue, nestedBarrier = &barrier;
  if (row.its.kind == Kind::Cold) {
    printf("cold\n");
    return 0;
  }
  rows_inside = hotInside;
  struct sigaction action = {};
  action.sa_sigaction = onSystemCall;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSYS, &action, nullptr);
  pthread_t thread;
  pthread_create(&thread, nullptr, hotThread, nullptr);
  while (!done.load()) usleep(1000);
  rows_inside = nullptr;
  static const char* const kinds[] = {"collective", "cold",  "store",   "buffer",  "post",
                                      "complete",   "issue", "execute", "blocked", "asked",
                                      "enqueue",    "group", "memory",  "failure", "mark"};
  printf("%s\n", kinds[int(row.its.kind)]);
  return 0;
}

static void* caughtThread(void* what) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  forbidSystemCalls();
  guarded = true;
  const char* name = static_cast<const char*>(what);
  if (strcmp(name, "malloc") == 0) {
    void* volatile memory = malloc(10);
    (void)memory;
  } else if (strcmp(name, "lock") == 0) {
    pthread_mutex_lock(&lock);
  } else {
    syscall(SYS_getpid);
  }
  done.store(1);
  syscall(SYS_exit, 0);
  return nullptr;
}

static int catchOne(char* what) {
  dup2(2, kComplaints);
  current = "driver caught";
  struct sigaction action = {};
  action.sa_sigaction = onSystemCall;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSYS, &action, nullptr);
  pthread_t thread;
  pthread_create(&thread, nullptr, caughtThread, what);
  while (!done.load()) usleep(1000);
  printf("not caught\n");
  return 1;
}

// ---- throw --------------------------------------------------------------------------------------------------------

struct Thrown {
  int row;
};

static int throwing = -1;
static const Row* insideConnect = nullptr;

static size_t throwInside(int number, const size_t* arguments) {
  if (number == throwing) throw Thrown{number};
  // A rendezvous queries a store, and the store's exception passes through the rendezvous too.
  if (insideConnect && has(rows_symbols[number], "15connectFullMesh")) return (*insideConnect)();
  (void)arguments;
  return 1;
}

static int throwEverywhere() {
  prepare();
  for (int number = 0; number < rows_count; number++) {
    const char* symbol = rows_symbols[number];
    connectContext();
    const Row row(symbol);
    const Row connect(kConnect);
    for (const Row* through : {&row, &connect}) {
      if (through == &connect && (row.its.kind != Kind::Store || !has(symbol, "Store"))) continue;
      if (row.its.kind == Kind::Group) {
        rows_inside = succeed;
        Row{kGroupStart}();
      }
      rows_inside = throwInside;
      throwing = number;
      insideConnect = through == &connect ? &row : nullptr;
      int arrived = -1;
      try {
        (*through)();
      } catch (const Thrown& thrown) {
        arrived = thrown.row;
      }
      rows_inside = nullptr;
      throwing = -1;
      insideConnect = nullptr;
      if (arrived != number) {
        fprintf(stderr, "the exception of %s did not arrive\n", symbol);
        return 1;
      }
    }
    // Any state that remained becomes visible here. The barrier's tag identifies the row for the test.
    connectContext();
    Row(kBarrier, 1000 + uint32_t(number))();
    Row{kWorkWait}();
    Row{kEnqueue}();
    Row{kSend}();
    Row{kExecute}();
    rows_inside = succeed;
    Row{kAllReduce}();
    rows_inside = nullptr;
    printf("%d %s\n", number, symbol);
  }
  return 0;
}

// ---- price --------------------------------------------------------------------------------------------------------

// Measures the cost of a call against the floor (price.h). A group consists of its start and its end.
static int priceOf(const char* symbol) {
  prepare();
  const Row row(symbol), start(kGroupStart);
  if (row.its.kind == Kind::Cold || strcmp(symbol, kGroupStart) == 0) return 0;
  void* library = dlopen("librows.so", RTLD_NOLOAD | RTLD_LAZY);
  const auto real = [&](const char* name) { return reinterpret_cast<Function>(dlsym(library, name)); };
  const Function realRow = real(symbol), realStart = real(kGroupStart);
  const bool isGroup = row.its.kind == Kind::Group;
  rows_inside = [](int, const size_t*) { return size_t(0); };
  price(
      symbol, row.function != realRow, [&] { isGroup ? start() : 0, row(); },
      [&] { isGroup ? call(realStart, start.its.arguments, false) : 0, call(realRow, row.its.arguments, rows_return_object[row.number]); }, 40);
  return 0;
}

int main(int argc, char** argv) {
  if (argc == 3 && strcmp(argv[1], "price") == 0) return priceOf(argv[2]);
  if (argc == 4 && strcmp(argv[1], "hot") == 0) {
    calls = strtol(argv[3], nullptr, 10);
    return hot(argv[2]);
  }
  if (argc == 3 && strcmp(argv[1], "caught") == 0) return catchOne(argv[2]);
  if (argc == 2 && strcmp(argv[1], "throw") == 0) return throwEverywhere();
  fprintf(stderr, "usage: driver hot SYMBOL CALLS | throw | caught WHAT | price SYMBOL\n");
  return 2;
}
