// A shared library whose constructor communicates (with LIBRARY), and a program that is linked to it. Constructors of
// linked libraries run before the constructor of a preloaded library.
#include <memory>

#include "ranks.h"
#include "sum.h"

std::shared_ptr<gloo::rendezvous::Context>& early();

#ifdef LIBRARY
std::shared_ptr<gloo::rendezvous::Context>& early() {
  static std::shared_ptr<gloo::rendezvous::Context> context;
  return context;
}

// The C library passes the arguments of `main` to constructors.
__attribute__((constructor)) static void before_main(int argc, char** argv) {
  const Rank self(argc, argv);
  early() = self.connect("early");
  for (unsigned tag = 0; tag < 5; tag++) {
    sumOnes(early(), 16, tag);
  }
}
#else
int main() {
  for (unsigned tag = 5; tag < 10; tag++) {
    sumOnes(early(), 16, tag);
  }
  early().reset();
  return 0;
}
#endif
