// A training whose compute is time on the clock and whose communication is real. The intended duration of every step is
// known, and so is the fault in it.
//   gloo_train RANK SIZE STORE PATTERN STEPS STEP_US FAULT VICTIM PERMILLE SEED [label:TEXT...]
//
// PATTERN  ddp         four gradient buckets, the first one smaller, each reduced after its part of the backward pass
//          fsdp        four layers gathered before use in both passes, their gradients reduced after it
//          accumulate  the same of two layers in four micro-steps, gradients reduced in the last one only
//          evaluate    ddp, and after every 50 steps four batches of evaluation, each with one small reduction
//          pipeline    two stages of 1F1B with 8 micro-batches, SIZE / 2 replicas, gradients reduced among replicas
//          added       ddp, and an additional small reduction after the others
//          halved      ddp, each bucket reduced as two halves
//          exchange    ddp with small buckets of one size; in the forward pass each rank sends 32 KiB to each other one
//          Each step ends with an optimizer after its last operation. It takes a tenth of the step.
// FAULT    none · persistent (every step) · recurrent (3 of every 30 steps) · transient (10 % of the steps, at once)
//          rotating (a random rank in each step) · host (VICTIM and the rank after it, every step)
//          link (nothing in this program: the network is slower)
// PERMILLE of the step's time is the fault's addition to the mean step of the late rank.
//
// The own time of every part varies by half a percent (one standard deviation), as real parts do. Each rank writes
// times of CLOCK_REALTIME in nanoseconds into TRUTH_DIR/rankR.steps, not into the log. They are the starts of its
// steps, the end of the last step, the end of each step's last operation, and the ends of its evaluations.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include <sys/prctl.h>

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/transport/unbound_buffer.h>

#include "../../layer/include/rankscope.h"
#include "ranks.h"

namespace {

int64_t now(clockid_t clock) {
  timespec at;
  clock_gettime(clock, &at);
  return at.tv_sec * 1000000000LL + at.tv_nsec;
}

// Pseudo-random numbers that are the same on every machine: splitmix64.
struct Random {
  uint64_t state;

  uint64_t next() {
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  double uniform() { return (next() >> 11) * (1.0 / (1ull << 53)); }

  double normal() { return std::sqrt(-2 * std::log(1 - uniform())) * std::cos(2 * M_PI * uniform()); }
};

class Training {
 public:
  Training(const Rank& self, char** argv)
      : self_(self),
        pattern_(argv[4]),
        steps_(std::atoi(argv[5])),
        step_us_(std::atof(argv[6])),
        fault_(argv[7]),
        victim_(std::atoi(argv[8])),
        share_(std::atof(argv[9]) / 1000),
        seed_(std::strtoull(argv[10], nullptr, 10)),
        own_{seed_ * 1000003 + self.rank},
        small_(64, 1.0f),
        first_(2048, 1.0f),
        large_(8192, 1.0f),
        gathered_(large_.size() * self.size),
        world_(self.connect("world")) {
    if (pattern_ == "pipeline") {
      replicas_ = self.connect("replicas" + std::to_string(stage()), self.rank / 2, self.size / 2);
    }
    // Timer slack of half a microsecond instead of fifty: late wake-ups must not affect the measurement.
    prctl(PR_SET_TIMERSLACK, 500);
  }

  void run() {
    gloo::BarrierOptions options(world_);
    gloo::barrier(options);
    for (int step = 0; step < steps_; step++) {
      began_.push_back(now(CLOCK_REALTIME));
      train(step);
      ended_.push_back(now(CLOCK_REALTIME));
      compute(0.1);
      if (pattern_ == "evaluate" && step % 50 == 49) {
        for (int batch = 0; batch < 4; batch++) {
          compute(0.25);
          reduce(world_, small_);
        }
        evaluated_.push_back(now(CLOCK_REALTIME));
      }
    }
    began_.push_back(now(CLOCK_REALTIME));
    gloo::barrier(options);
    tell();
  }

 private:
  int stage() const { return self_.rank % 2; }

  // Returns the time that the fault adds to this rank's own time in a step, in microseconds.
  double late_us(int step) {
    const double mean = share_ * step_us_;
    const bool is_victim = self_.rank == victim_ || (fault_ == "host" && self_.rank == victim_ + 1);
    if (fault_ == "rotating") {
      Random shared{seed_ + uint64_t(step) * 7919};
      shared.next();
      return int(shared.next() % self_.size) == self_.rank ? mean : 0;
    }
    if (!is_victim) {
      return 0;
    }
    if (fault_ == "recurrent") {
      return step % 30 >= 10 && step % 30 < 13 ? mean * 10 : 0;
    }
    if (fault_ == "transient") {
      const int count = std::max(1, steps_ / 10);
      const int first = steps_ / 2 + int(seed_ % 10);
      return step >= first && step < first + count ? mean * steps_ / count : 0;
    }
    return fault_ == "none" || fault_ == "link" ? 0 : mean;
  }

  // Computes for a share of a step's time plus an additional time.
  void compute(double part, double more_us = 0) {
    const double us = part * step_us_ * (1 + 0.005 * own_.normal()) + more_us;
    const int64_t until = now(CLOCK_MONOTONIC) + int64_t(us * 1000);
    const timespec at{time_t(until / 1000000000), long(until % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr) != 0) {
    }
  }

  void train(int step) {
    const double late = late_us(step);
    if (pattern_ == "fsdp") {
      micro_step(1.0, 4, late, true);
    } else if (pattern_ == "accumulate") {
      for (int micro = 0; micro < 4; micro++) {
        micro_step(0.25, 2, late / 4, micro == 3);
      }
    } else if (pattern_ == "pipeline") {
      one_forward_one_backward(late);
    } else {
      compute(0.3, late);
      if (pattern_ == "exchange") {
        exchange(step);
      }
      for (int bucket = 0; bucket < 4; bucket++) {
        compute(0.15);
        std::vector<float>& values = pattern_ == "exchange" ? small_ : bucket == 0 ? first_ : large_;
        if (pattern_ == "halved") {
          reduce(world_, values, 0, values.size() / 2);
          reduce(world_, values, values.size() / 2, values.size());
        } else {
          reduce(world_, values);
        }
      }
      if (pattern_ == "added") {
        reduce(world_, small_);
      }
    }
  }

  void micro_step(double part, int layers, double late, bool exchanges) {
    for (int layer = 0; layer < layers; layer++) {
      gather();
      compute(part * 0.32 / layers, layer == 0 ? late : 0);
    }
    for (int layer = 0; layer < layers; layer++) {
      gather();
      compute(part * 0.58 / layers);
      if (exchanges) {
        reduce(world_, large_);
      }
    }
  }

  void one_forward_one_backward(double late) {
    const int batches = 8;
    const int warm = 1 - stage();
    // Shares of the stage's computing time: 8 forward and 8 backward parts, one third and two thirds.
    const double forward = 0.3 / (batches + 1), backward = 0.6 / (batches + 1);
    const double each = late / batches;
    int forwards = 0, backwards = 0;
    const auto pass_forward = [&] {
      if (stage() == 1) {
        receive(forwards);
      }
      compute(forward, each);
      if (stage() == 0) {
        send(forwards);
      }
      forwards++;
    };
    const auto pass_backward = [&] {
      if (stage() == 0) {
        receive(100 + backwards);
      }
      compute(backward);
      if (stage() == 1) {
        send(100 + backwards);
      }
      backwards++;
    };
    for (int i = 0; i < warm; i++) {
      pass_forward();
    }
    while (forwards < batches) {
      pass_forward();
      pass_backward();
    }
    while (backwards < batches) {
      pass_backward();
    }
    for (auto& buffer : sending_) {
      buffer->waitSend();
    }
    sending_.clear();
    reduce(replicas_, large_);
    reduce(world_, small_);
  }

  void reduce(const std::shared_ptr<gloo::Context>& context, std::vector<float>& values) {
    reduce(context, values, 0, values.size());
  }

  void reduce(const std::shared_ptr<gloo::Context>& context, std::vector<float>& values, size_t begin, size_t end) {
    gloo::AllreduceOptions options(context);
    options.setOutput(values.data() + begin, end - begin);
    options.setReduceFunction([](void* c, const void* a, const void* b, size_t n) { gloo::max<float>(c, a, b, n); });
    gloo::allreduce(options);
  }

  void gather() {
    gloo::AllgatherOptions options(world_);
    options.setInput(large_.data(), large_.size());
    options.setOutput(gathered_.data(), gathered_.size());
    gloo::allgather(options);
  }

  // Messages between the stages of a replica, whose ranks are neighbours. The sender continues, because the peer may be
  // sending too.
  void send(int slot) {
    sending_.push_back(world_->createUnboundBuffer(large_.data(), large_.size() * sizeof(float)));
    sending_.back()->send(self_.rank ^ 1, slot);
  }

  void receive(int slot) {
    auto buffer = world_->createUnboundBuffer(gathered_.data(), large_.size() * sizeof(float));
    buffer->recv(self_.rank ^ 1, slot);
    buffer->waitRecv();
  }

  // Exchanges in rounds. In each of them a rank sends to one rank and receives from one.
  void exchange(int step) {
    const size_t bytes = large_.size() * sizeof(float);
    for (int round = 1; round < self_.size; round++) {
      auto out = world_->createUnboundBuffer(large_.data(), bytes);
      auto in = world_->createUnboundBuffer(gathered_.data(), bytes);
      const uint64_t slot = 1000 + uint64_t(step) * self_.size + round;
      out->send((self_.rank + round) % self_.size, slot);
      in->recv((self_.rank + self_.size - round) % self_.size, slot);
      in->waitRecv();
      out->waitSend();
    }
  }

  void tell() const {
    const char* directory = std::getenv("TRUTH_DIR");
    if (directory == nullptr) {
      return;
    }
    const std::string path = std::string(directory) + "/rank" + std::to_string(self_.rank) + ".steps";
    std::FILE* file = std::fopen(path.c_str(), "we");
    if (file == nullptr) {
      std::perror(path.c_str());
      std::exit(2);
    }
    const auto tell = [file](const char* what, const std::vector<int64_t>& moments) {
      for (const int64_t at : moments) {
        std::fprintf(file, "%s %lld\n", what, static_cast<long long>(at));
      }
    };
    tell("began", began_);
    tell("ended", ended_);
    tell("evaluated", evaluated_);
    std::fclose(file);
  }

  const Rank& self_;
  const std::string pattern_;
  const int steps_;
  const double step_us_;
  const std::string fault_;
  const int victim_;
  const double share_;
  const uint64_t seed_;
  Random own_;
  std::vector<float> small_, first_, large_, gathered_;
  std::shared_ptr<gloo::rendezvous::Context> world_, replicas_;
  std::vector<std::unique_ptr<gloo::transport::UnboundBuffer>> sending_;
  std::vector<int64_t> began_, ended_, evaluated_;
};

}  // namespace

int main(int argc, char** argv) {
  const Rank self(argc, argv);
  if (argc < 11) {
    std::fprintf(stderr, "usage: %s RANK SIZE STORE PATTERN STEPS STEP_US FAULT VICTIM PERMILLE SEED\n", argv[0]);
    return 2;
  }
  // Labels of a program, if a test wants some.
  const uint64_t number = std::strtoull(argv[1], nullptr, 10), size = std::strtoull(argv[2], nullptr, 10);
  for (int at = 11; at < argc; at++) {
    if (std::strncmp(argv[at], "label:", 6) != 0) continue;
    const char* label = argv[at] + 6;
    rankscope_start();
    rankscope_push(label);
    rankscope_pop();
    rankscope_counter(label, 1);
    rankscope_communicator(label, static_cast<uint32_t>(number), static_cast<uint32_t>(size));
  }
  Training(self, argv).run();
  return 0;
}
