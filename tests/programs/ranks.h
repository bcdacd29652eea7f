// Command line of the Gloo programs: `program RANK SIZE STORE [more]`. STORE is an empty directory that all ranks
// share, and each communicator uses a name in it. RANK_ADDRESS is the rank's address for others. It is needed if they
// are on other hosts.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>

struct Rank {
  int rank;
  int size;
  std::string store;

  Rank(int argc, char** argv) {
    if (argc < 4) {
      std::fprintf(stderr, "usage: %s RANK SIZE STORE [more]\n", argv[0]);
      std::exit(2);
    }
    rank = std::atoi(argv[1]);
    size = std::atoi(argv[2]);
    store = argv[3];
  }

  // Returns a communicator over `size` processes in which this process is `rank`.
  std::shared_ptr<gloo::rendezvous::Context> connect(const std::string& name, int rank, int size) const {
    const char* address = std::getenv("RANK_ADDRESS");
    std::shared_ptr<gloo::transport::Device> device =
        gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(address == nullptr ? "127.0.0.1" : address));
    gloo::rendezvous::FileStore files(store);
    gloo::rendezvous::PrefixStore named(name, files);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
    context->connectFullMesh(named, device);
    return context;
  }

  std::shared_ptr<gloo::rendezvous::Context> connect(const std::string& name) const {
    return connect(name, rank, size);
  }
};
