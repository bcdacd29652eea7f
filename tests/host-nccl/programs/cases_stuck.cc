// Trainings that stop at step 20, for good. All ranks meet under the name `fault` before that step.
#include <csignal>

#include "cases.h"

namespace {

constexpr int kSteps = 20;
// Large enough for several chunks. A rank with fewer chunks than its peers then makes them wait.
constexpr size_t kCount = 1 << 22;

// Two communicators that use one stream. Each step has an all-reduce on the first and an all-gather on the second.
struct Training {
  explicit Training(Member& world) : model(world), shards(world.process, "shards", world.stream), data(kCount * 4) {
    shards.create();
  }

  void reduce() { NCCL(model.allReduce(data.device(), data.device(), kCount, ncclFloat32, ncclSum)); }

  void gather() { NCCL(shards.allGather(data.device(), data.device(), kCount / 64, ncclFloat32)); }

  // Runs the steps before the fault.
  void healthy() {
    for (int step = 0; step < kSteps; step++) {
      usleep(5000);
      reduce();
      gather();
      model.synchronize();
    }
    model.process.meet("fault");
  }

  // Ends the step, which does not end.
  size_t rest() {
    gather();
    model.synchronize();
    // The operations of a rank may end although those of its peers cannot.
    while (true) pause();
  }

  Member& model;
  Member shards;
  Buffer data;
};

// Adds a case in which rank 1 does something else than the all-reduce of its peers.
Case stuck(const char* name, std::function<void(Training& training)> fault) {
  return Case(name, [fault](Member& world) {
    Training training(world);
    training.healthy();
    if (world.rank == 1) {
      fault(training);
    } else {
      training.reduce();
    }
    return training.rest();
  });
}

void forever(void*) {
  while (true) pause();
}

// Its program never enqueues the operation.
const Case kHost = stuck("stuckhost", [](Training&) { forever(nullptr); });

// Its device never runs the operation, because the work before it on the stream never ends.
const Case kDevice = stuck("stuckdevice", [](Training& training) {
  CUDA(cudaLaunchHostFunc(training.model.stream, forever, nullptr));
  training.reduce();
});

// It enqueues the operations of both communicators in another order.
const Case kOrder = stuck("stuckorder", [](Training& training) {
  training.gather();
  training.reduce();
  training.model.synchronize();
  forever(nullptr);
});

const Case kOperation = stuck("stuckoperation", [](Training& training) {
  Member& model = training.model;
  NCCL(model.allGather(training.data.device(), training.data.device(), kCount / 64, ncclFloat32));
});

const Case kSize = stuck("stucksize", [](Training& training) {
  NCCL(training.model.allReduce(training.data.device(), training.data.device(), kCount / 4096, ncclFloat32, ncclSum));
});

const Case kStop = stuck("stuckstop", [](Training&) { std::raise(SIGSTOP); });

const Case kKill = stuck("stuckkill", [](Training&) { std::raise(SIGKILL); });

}  // namespace
