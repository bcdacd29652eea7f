// Measures the cost of one intercepted call of Gloo against the floor (price.h). The barrier has one member, so Gloo
// itself does almost nothing.
#include <dlfcn.h>

#include <gloo/barrier.h>

#include "price.h"
#include "ranks.h"

using Barrier = void (*)(gloo::BarrierOptions&);

int main(int argc, char** argv) {
  const Rank self(argc, argv);
  auto context = self.connect("price");
  gloo::BarrierOptions options(context);
  options.setTag(1);
  void* handle = dlopen("libgloo.so.0", RTLD_NOLOAD | RTLD_LAZY);
  const auto real = reinterpret_cast<Barrier>(dlsym(handle, "_ZN4gloo7barrierERNS_14BarrierOptionsE"));
  const Barrier called = &gloo::barrier;
  if (!real) return 1;
  price(
      "gloo::barrier", reinterpret_cast<void*>(called) != reinterpret_cast<void*>(real),
      [&] { gloo::barrier(options); }, [&] { real(options); });
}
