#include "messages.h"

#include "pattern.h"

Exchange::Exchange(Member& member, size_t count)
    : member(member), count(count), in(count * member.ranks * 4), out(count * member.ranks * 4) {
  fill(in, floats(), member.rank, count * member.ranks);
  in.upload();
}

void Exchange::group(bool hasSelf) {
  NCCL(member.groupStart());
  for (int peer = 0; peer < member.ranks; peer++) {
    if (peer == member.rank && !hasSelf) continue;
    const size_t offset = peer * count * 4;
    NCCL(member.send(in.device(offset), count, ncclFloat32, peer));
    NCCL(member.receive(out.device(offset), count, ncclFloat32, peer));
  }
  NCCL(member.groupEnd());
}

size_t Exchange::wrong(bool hasSelf) {
  out.download();
  size_t bad = 0;
  for (int peer = 0; peer < member.ranks; peer++) {
    if (peer == member.rank && !hasSelf) continue;
    bad += ::wrong(out, floats(), count, peer * count, "all-to-all", [&](size_t i) {
      return elementOf(peer, member.rank * count + i);
    });
  }
  return bad;
}

size_t exchange(Member& member, size_t count, bool hasSelf, int rounds) {
  Exchange all(member, count);
  for (int i = 0; i < rounds; i++) all.group(hasSelf);
  member.synchronize();
  return all.wrong(hasSelf);
}
