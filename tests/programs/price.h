// Times a call in three ways in turn, block by block, in one process on one thread:
//   wrapped  through the PLT, as a program calls it, which under a preload is the wrapper
//   real     the same function by its address in its library, past the wrapper
//   floor    the counter twice, 56 bytes and a release store into a file on /dev/shm
// and prints one JSON line.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "counter.h"

// 8 MiB in chunks of 8 KiB with a header line each, like a rank log's live area.
struct Floor {
  static constexpr size_t kBytes = 8 << 20, kChunk = 8192;
  char* base;
  size_t at = 64;
  Floor() {
    const char* path = "/dev/shm/rankscope-call-price";
    const int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || posix_fallocate(file, 0, kBytes) != 0) std::exit(1);
    base = static_cast<char*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0));
    if (base == MAP_FAILED) std::exit(1);
    close(file);
    unlink(path);
  }
  inline void record() {
    const uint64_t enter = counter();
    asm volatile("" ::: "memory");
    const uint64_t leave = counter();
    auto* words = reinterpret_cast<uint64_t*>(base + at);
    const uint64_t body[7] = {enter, leave, 4096, 0x1234, 7, 1, 0x5678};
    std::memcpy(words + 1, body, sizeof(body));
    reinterpret_cast<std::atomic<uint64_t>*>(words)->store(0x0101010100000001, std::memory_order_release);
    at += 64;
    if (at % kChunk == 0) at = at == kBytes ? 64 : at + 64;
  }
};

template <typename F>
static double block(F&& f, int calls) {
  const uint64_t start = counter();
  for (int i = 0; i < calls; i++) f();
  return double(counter() - start) / calls;
}

template <typename F>
static std::vector<uint32_t> single(F&& f, int calls) {
  std::vector<uint32_t> out(calls);
  for (auto& ticks : out) {
    const uint64_t start = counter();
    f();
    ticks = uint32_t(counter() - start);
  }
  std::sort(out.begin(), out.end());
  return out;
}

static double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + v.size() / 2, v.end());
  return v[v.size() / 2];
}

template <typename Wrapped, typename Real>
static void price(const char* what, bool isIntercepted, Wrapped&& wrapped, Real&& real, int kBlocks = 300) {
  Floor floor;
  // Slow enough for a background thread that shares its processor: the measurement is about the call, not the disk.
  const int kCalls = 20000;
  std::vector<double> wrapped_blocks, real_blocks, floor_blocks, ratios;
  for (int i = 0; i < kBlocks; i++) {
    const double w = block(wrapped, kCalls);
    const double r = block(real, kCalls);
    const double f = block([&] { floor.record(); }, kCalls);
    wrapped_blocks.push_back(w), real_blocks.push_back(r), floor_blocks.push_back(f);
    ratios.push_back((w - r) / f);
    usleep(30000);
  }
  std::vector<uint32_t> wrapped_single, floor_single;
  for (int i = 0; i < 20; i++) {
    auto w = single(wrapped, kCalls);
    auto f = single([&] { floor.record(); }, kCalls);
    wrapped_single.insert(wrapped_single.end(), w.begin(), w.end());
    floor_single.insert(floor_single.end(), f.begin(), f.end());
    usleep(30000);
  }
  std::sort(wrapped_single.begin(), wrapped_single.end());
  std::sort(floor_single.begin(), floor_single.end());
  const auto p99 = [](const std::vector<uint32_t>& v) { return v[v.size() * 99 / 100]; };
  std::printf(
      "{\"call\": \"%s\", \"intercepted\": %s, \"wrapped_ticks\": %.1f, \"real_ticks\": %.1f, \"floor_ticks\": %.1f, "
      "\"price_ticks\": %.1f, \"ratio\": %.3f, \"wrapped_p99_ticks\": %u, \"floor_p99_ticks\": %u, \"p99_ratio\": %.3f, "
      "\"calls\": %d}\n",
      what, isIntercepted ? "true" : "false", median(wrapped_blocks),
      median(real_blocks), median(floor_blocks), median(wrapped_blocks) - median(real_blocks), median(ratios),
      p99(wrapped_single), p99(floor_single), double(p99(wrapped_single)) / p99(floor_single), kCalls * kBlocks);
}
