// Calls every collective that libgloo exports once (the all-reduce twice), and messages through unbound buffers. Sizes,
// roots and tags all differ, so that a mixed-up argument is detected.
#include <cstdint>
#include <numeric>
#include <vector>

#include <gloo/allgather.h>
#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/scatter.h>

#include "gatherv.h"
#include "ranks.h"
#include "truth.h"

int main(int argc, char** argv) {
  const Rank self(argc, argv);
  const int rank = self.rank;
  const int size = self.size;
  const int last = size - 1;
  const auto sum = [](void* c, const void* a, const void* b, size_t n) { gloo::sum<float>(c, a, b, n); };
  Truth truth(rank);
  auto context = self.connect("all");

  {
    std::vector<float> values(1000, 1.0f);
    gloo::AllreduceOptions options(context);
    options.setOutput(values.data(), values.size());
    options.setReduceFunction(sum);
    options.setTag(11);
    gloo::allreduce(options);
    truth.operation("all", "allreduce", 1000, sizeof(float), 11);
  }
  {
    // The input is separate from the output, and large enough for several segments.
    std::vector<double> in(300000, 1.0), out(300000);
    gloo::AllreduceOptions options(context);
    options.setInput(in.data(), in.size());
    options.setOutput(out.data(), out.size());
    options.setReduceFunction([](void* c, const void* a, const void* b, size_t n) { gloo::sum<double>(c, a, b, n); });
    options.setTag(12);
    gloo::allreduce(options);
    truth.operation("all", "allreduce", 300000, sizeof(double), 12);
  }
  {
    std::vector<int16_t> in(21, int16_t(rank)), out(21 * size);
    gloo::AllgatherOptions options(context);
    options.setInput(in.data(), in.size());
    options.setOutput(out.data(), out.size());
    options.setTag(13);
    gloo::allgather(options);
    truth.operation("all", "allgather", 21, sizeof(int16_t), 13);
  }
  {
    // Rank r contributes r + 5 elements.
    std::vector<size_t> counts(size);
    std::iota(counts.begin(), counts.end(), 5);
    std::vector<int32_t> in(counts[rank], rank);
    std::vector<int32_t> out(std::accumulate(counts.begin(), counts.end(), size_t(0)));
    gloo::AllgathervOptions options(context);
    options.setInput(in.data(), in.size());
    options.setOutput(out.data(), counts);
    options.setTag(14);
    gloo::allgatherv(options);
    truth.uneven("all", "allgatherv", std::vector<size_t>(size, counts[rank]), counts, sizeof(int32_t), 14);
  }
  {
    std::vector<int64_t> in(31 * size, rank), out(31 * size);
    gloo::AlltoallOptions options(context);
    options.setInput(in.data(), in.size());
    options.setOutput(out.data(), out.size());
    options.setTag(15);
    gloo::alltoall(options);
    truth.operation("all", "alltoall", 31, sizeof(int64_t), 15);
  }
  {
    // r + 2 p elements go from rank r to rank p, and none from rank 0 to itself.
    std::vector<int64_t> to(size), from(size);
    for (int peer = 0; peer < size; peer++) {
      to[peer] = rank + 2 * peer;
      from[peer] = peer + 2 * rank;
    }
    std::vector<float> in(std::accumulate(to.begin(), to.end(), int64_t(0)) + 1);
    std::vector<float> out(std::accumulate(from.begin(), from.end(), int64_t(0)) + 1);
    gloo::AlltoallvOptions options(context);
    options.setInput(in.data(), to);
    options.setOutput(out.data(), from);
    options.setTag(16);
    gloo::alltoallv(options);
    truth.uneven("all", "alltoallv", to, from, sizeof(float), 16);
  }
  {
    gloo::BarrierOptions options(context);
    options.setTag(17);
    gloo::barrier(options);
    truth.operation("all", "barrier", 0, 0, 17);
  }
  {
    std::vector<uint8_t> values(77, uint8_t(rank));
    gloo::BroadcastOptions options(context);
    options.setOutput(values.data(), values.size());
    options.setRoot(last);
    options.setTag(18);
    gloo::broadcast(options);
    truth.operation("all", "broadcast", 77, sizeof(uint8_t), 18, last);
  }
  {
    std::vector<float> in(41, float(rank)), out(41 * size);
    gloo::GatherOptions options(context);
    options.setInput(in.data(), in.size());
    if (rank == 1) {
      options.setOutput(out.data(), out.size());
    }
    options.setRoot(1);
    options.setTag(19);
    gloo::gather(options);
    truth.operation("all", "gather", 41, sizeof(float), 19, 1);
  }
  {
    // Rank r contributes 3 r + 1 elements.
    std::vector<size_t> counts(size), to(size, 0), from(size, 0);
    for (int peer = 0; peer < size; peer++) {
      counts[peer] = 3 * peer + 1;
    }
    to[last] = counts[rank];
    std::vector<int32_t> in(counts[rank], rank);
    std::vector<int32_t> out(std::accumulate(counts.begin(), counts.end(), size_t(0)));
    gloo::GathervOptions options(context);
    options.setInput(in.data(), in.size());
    // Gloo reads the counts on every rank, although only the root receives.
    options.setOutput(out.data(), counts);
    if (rank == last) {
      from = counts;
    }
    options.setRoot(last);
    options.setTag(20);
    gloo::gatherv(options);
    truth.uneven("all", "gatherv", to, from, sizeof(int32_t), 20, last);
  }
  {
    std::vector<float> in(51, 1.0f), out(51);
    gloo::ReduceOptions options(context);
    options.setInput(in.data(), in.size());
    options.setOutput(out.data(), out.size());
    options.setReduceFunction(sum);
    options.setRoot(1);
    options.setTag(21);
    gloo::reduce(options);
    truth.operation("all", "reduce", 51, sizeof(float), 21, 1);
  }
  {
    std::vector<std::vector<float>> in(size, std::vector<float>(61));
    std::vector<float*> pointers;
    for (auto& values : in) {
      pointers.push_back(values.data());
    }
    std::vector<float> out(61);
    gloo::ScatterOptions options(context);
    if (rank == 0) {
      options.setInputs(pointers, 61);
    }
    options.setOutput(out.data(), out.size());
    options.setRoot(0);
    options.setTag(22);
    gloo::scatter(options);
    truth.operation("all", "scatter", 61, sizeof(float), 22, 0);
  }
  {
    // Round the ring: first the whole buffer (only its creation gives the size), then a part of it.
    const int next = (rank + 1) % size;
    const int previous = (rank + last) % size;
    std::vector<uint8_t> out(900, uint8_t(rank)), in(900);
    auto sending = context->createUnboundBuffer(out.data(), out.size());
    auto receiving = context->createUnboundBuffer(in.data(), in.size());
    for (unsigned slot : {1001u, 1002u}) {
      const size_t bytes = slot == 1001 ? 900 : 300;
      if (slot == 1001) {
        sending->send(next, slot);
        receiving->recv(previous, slot);
      } else {
        sending->send(next, slot, 100, bytes);
        receiving->recv(previous, slot, 100, bytes);
      }
      sending->waitSend();
      truth.operation("all", "send", bytes, 1, slot, -1, next);
      receiving->waitRecv();
      truth.operation("all", "recv", bytes, 1, slot, -1, previous);
    }
  }
  {
    // A receive from any source: the peer is known only at completion.
    std::vector<uint8_t> values(64);
    auto buffer = context->createUnboundBuffer(values.data(), values.size());
    if (rank == 0) {
      std::vector<int> anyone;
      for (int peer = 1; peer < size; peer++) {
        anyone.push_back(peer);
      }
      for (int left = last; left > 0; left--) {
        int source = -1;
        buffer->recv(anyone, 1003);
        buffer->waitRecv(&source);
        truth.operation("all", "recv", 64, 1, 1003, -1, source);
      }
    } else {
      buffer->send(0, 1003);
      buffer->waitSend();
      truth.operation("all", "send", 64, 1, 1003, -1, 0);
    }
  }
  {
    gloo::BarrierOptions options(context);
    options.setTag(23);
    gloo::barrier(options);
    truth.operation("all", "barrier", 0, 0, 23);
  }
  return 0;
}
