// Closes every descriptor above those of Gloo, as daemons and checkpoint writers do, 2000 times between operations.
// Each time it opens a file, which takes the number of a closed descriptor. The file must get the lowest number, and
// must keep its content.
#include <cstdio>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <unistd.h>

#include "ranks.h"
#include "sum.h"

int main(int argc, char** argv) {
  const Rank self(argc, argv);
  auto alone = self.connect("alone " + std::to_string(self.rank), 0, 1);
  const std::string path = self.store + "/checkpoint" + std::to_string(self.rank);
  std::string expected;
  unsigned operations = 0, wrong = 0;
  const int lowest = dup(0);
  closefrom(lowest);
  for (unsigned turn = 0; turn < 2000; turn++) {
    for (int n = 0; n < 20; n++) {
      sumOnes(alone, 4, operations++);
    }
    closefrom(lowest);
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    wrong += file != lowest;
    for (int part = 0; part < 4; part++) {
      const std::string line = "turn " + std::to_string(turn) + " part " + std::to_string(part) + "\n";
      if (write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
        return 4;
      }
      expected += line;
    }
    wrong += close(file) != 0;
  }
  std::stringstream found;
  found << std::ifstream(path).rdbuf();
  std::printf("%u operations, %u wrong descriptors, checkpoint %s\n", operations, wrong,
              found.str() == expected ? "whole" : "spoilt");
  return wrong == 0 && found.str() == expected ? 0 : 1;
}
