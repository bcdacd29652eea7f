// An all-to-all of messages.
#pragma once

#include "rank.h"

// The buffers of an all-to-all with the same count for each pair.
struct Exchange {
  Exchange(Member& member, size_t count);
  // One group with a message to each rank, with or without one to itself.
  void group(bool hasSelf);
  size_t wrong(bool hasSelf);

  Member& member;
  const size_t count;
  Buffer in, out;
};

// Returns the number of wrong elements after some rounds.
size_t exchange(Member& member, size_t count, bool hasSelf, int rounds);
