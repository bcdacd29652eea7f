// Command line of the NCCL programs: `program RANK SIZE STORE`, with an empty directory that all ranks share.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "../doubles/nccl/nccl_double.h"

inline void needed(bool fine, const char* file, int line, const char* what) {
  if (fine) return;
  std::fprintf(stderr, "%s, line %d: %s\n", file, line, what);
  std::exit(3);
}
#define CHECK(condition) needed(condition, __FILE__, __LINE__, #condition)
#define NCCL(call) CHECK((call) == ncclSuccess)

struct NcclRank {
  int rank, size;
  std::string store;

  NcclRank(int argc, char** argv) {
    CHECK(argc >= 4);
    rank = std::atoi(argv[1]), size = std::atoi(argv[2]), store = argv[3];
  }

  // Returns an id that all ranks share under this name. Rank 0 creates it.
  ncclUniqueId share(const std::string& name) const {
    const std::string path = store + "/" + name;
    ncclUniqueId id;
    if (rank == 0) {
      NCCL(ncclGetUniqueId(&id));
      const std::string fresh = path + ".fresh";
      std::FILE* file = std::fopen(fresh.c_str(), "wb");
      CHECK(file != nullptr && std::fwrite(&id, sizeof id, 1, file) == 1 && std::fclose(file) == 0);
      CHECK(std::rename(fresh.c_str(), path.c_str()) == 0);
      return id;
    }
    std::FILE* file;
    while ((file = std::fopen(path.c_str(), "rb")) == nullptr) usleep(1000);
    CHECK(std::fread(&id, sizeof id, 1, file) == 1);
    std::fclose(file);
    return id;
  }
};
