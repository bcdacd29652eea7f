// Runs a known number of kernels, copies and sets on a device that is being recorded:
//   kernels --nccl LIBRARY [--ready COMMAND] [--wait-ms N] [--kernels N] [--gap-us N] [--graphs 1] [--end HOW]
// When everything is set up it runs COMMAND, which must switch recording on, and waits. NCCL's work on the device is
// done before: from then on all works are the program's own.
// Then it launches --kernels small kernels (default 100000) on two streams in turn. They come in batches of 100 with
// three copies and a set, and a pause follows each batch. With --graphs it instead replays two graphs of seven nodes
// 100 times. One graph was created before recording was switched on, the other one after.
// HOW is exit (the default), _exit or kill, directly after the last work. The last line reports the launches.
#include "device.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>

static constexpr int kBatch = 100, kReplays = 100, kInGraph = 5;

struct Launched {
  uint64_t kernels = 0, copies = 0, sets = 0;
  uint64_t all() const { return kernels + copies + sets; }
};

// Number of launches at a moment.
struct Moment {
  int64_t ns;
  uint64_t launched;
};

static Launched launched;
static std::vector<Moment> progress;

static void sleepUs(long us) {
  const timespec time = {us / 1000000, us % 1000000 * 1000};
  nanosleep(&time, nullptr);
}

static void smallKernels(const Device& device, long count, long gapUs) {
  const Driver& driver = device.driver;
  const Handle kernel = device.kernel("rankscope_small");
  const Handle streams[] = {device.stream(), device.stream()};
  // Each stream has its own words; the copies and the set are elsewhere.
  const Address words[] = {device.memory, device.memory + 4096}, others = device.memory + 65536;
  for (long done = 0; done < count;) {
    for (int at = 0; at < kBatch && done < count; at++, done++) {
      FINE(driver.launch(kernel, streams[done % 2], words[done % 2]));
      launched.kernels++;
    }
    FINE(driver.copyToDevice(others, device.host, 16384, streams[0]));
    FINE(driver.copyOnDevice(others + 32768, others, 16384, streams[0]));
    FINE(driver.copyToHost(static_cast<char*>(device.host) + 65536, others, 16384, streams[1]));
    launched.copies += 3;
    FINE(driver.set(others + 131072, 7, 4096, streams[1]));
    launched.sets++;
    progress.push_back({clockNs(CLOCK_MONOTONIC_RAW), launched.all()});
    if (done / kBatch % 10 == 0) {
      FINE(driver.synchronize(streams[0]));
      FINE(driver.synchronize(streams[1]));
    }
    sleepUs(gapUs);
  }
  FINE(driver.synchronizeContext());
  // The device itself confirms the number: each kernel incremented its stream's first word.
  auto* const counted = static_cast<uint32_t*>(device.host);
  for (int at = 0; at < 2; at++) FINE(driver.copyToHost(counted + at, words[at], sizeof *counted, streams[0]));
  launched.copies += 2;
  FINE(driver.synchronizeContext());
  std::printf("{\"counted_on_device\":%u}\n", counted[0] + counted[1]);
}

struct Graph {
  const char* name;
  Handle executable;
  size_t nodes;
};

// Captures a set, kernels of this name, and a copy, one after the other.
static Graph captured(const Device& device, const char* name, Handle stream) {
  const Driver& driver = device.driver;
  const Handle kernel = device.kernel(name);
  Graph made = {name, nullptr, 0};
  Handle graph = nullptr;
  // Relaxed mode: calls of other threads do not disturb the capture.
  FINE(driver.beginCapture(stream, 2));
  FINE(driver.set(device.memory, 0, 4096, stream));
  for (int at = 0; at < kInGraph; at++) FINE(driver.launch(kernel, stream, device.memory));
  FINE(driver.copyOnDevice(device.memory + 65536, device.memory, 4096, stream));
  FINE(driver.endCapture(stream, &graph));
  FINE(driver.graphNodes(graph, nullptr, &made.nodes));
  FINE(driver.instantiate(&made.executable, graph, 0));
  return made;
}

static void replay(const Device& device, const Graph& graph, Handle stream, long gapUs) {
  for (int at = 0; at < kReplays; at++) {
    FINE(device.driver.launchGraph(graph.executable, stream));
    launched.kernels += kInGraph, launched.copies++, launched.sets++;
    progress.push_back({clockNs(CLOCK_MONOTONIC_RAW), launched.all()});
    sleepUs(gapUs);
  }
  FINE(device.driver.synchronize(stream));
}

static uint64_t launchedBefore(int64_t ns) {
  uint64_t before = 0;
  for (const Moment& moment : progress)
    if (moment.ns <= ns) before = moment.launched;
  return before;
}

int main(int argc, char** argv) {
  const Options options(argc, argv, 1);
  const long gapUs = options.number("gap-us", 2000);
  const bool isGraphs = options.number("graphs", 0) != 0;
  const Device device;
  std::vector<Graph> graphs;
  Handle stream = nullptr;
  if (isGraphs) {
    stream = device.stream();
    graphs.push_back(captured(device, "rankscope_early", stream));
  }

  const int64_t begun = clockNs(CLOCK_MONOTONIC_RAW);
  Communicator communicator(options.text("nccl", "libnccl.so.2").c_str());
  communicator.begin(communicator.id(), 0, 1);
  const int64_t initialised = clockNs(CLOCK_MONOTONIC_RAW);
  FINE(device.driver.synchronizeContext());
  const std::string ready = options.text("ready", "");
  if (!ready.empty()) {
    // The command is not recorded, and is no part of the job.
    const int status = std::system(("unset LD_PRELOAD; " + ready + " >&2").c_str());
    CHECK(status == 0);
  }
  sleepUs(options.number("wait-ms", 2500) * 1000);

  const int64_t started = clockNs(CLOCK_MONOTONIC_RAW);
  if (isGraphs) {
    graphs.push_back(captured(device, "rankscope_late", stream));
    for (const Graph& graph : graphs) replay(device, graph, stream, gapUs);
  } else {
    smallKernels(device, options.number("kernels", 100000), gapUs);
  }
  const int64_t ended = clockNs(CLOCK_MONOTONIC_RAW);
  const std::string how = options.text("end", "exit");
  std::printf("{\"launched\":%" PRIu64 ",\"kernels\":%" PRIu64 ",\"copies\":%" PRIu64 ",\"sets\":%" PRIu64 ",\"ran_ms\":%" PRId64 ",\"communicator_ms\":%" PRId64
              ",\"launched_1000_ms_before_the_end\":%" PRIu64 ",\"launched_1500_ms_before_the_end\":%" PRIu64 ",\"end\":\"%s\",\"graphs\":[",
              launched.all(), launched.kernels, launched.copies, launched.sets, (ended - started) / 1000000, (initialised - begun) / 1000000,
              launchedBefore(ended - 1000000000), launchedBefore(ended - 1500000000), how.c_str());
  for (size_t at = 0; at < graphs.size(); at++)
    std::printf("%s{\"name\":\"%s\",\"replays\":%d,\"kernels\":%d,\"nodes\":%zu}", at > 0 ? "," : "", graphs[at].name, kReplays, kInGraph, graphs[at].nodes);
  std::printf("]}\n");
  std::fflush(stdout);
  if (how == "kill") kill(getpid(), SIGKILL);
  if (how == "_exit") _exit(0);
  // The communicator is left to the end of the process: destroying it may be device work.
  std::exit(0);
}
