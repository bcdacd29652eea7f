"""A rank that marks its work by the Python module. Arguments: RANK, SIZE, STEPS, DIR and the folder of the module."""

import asyncio
import copy
import os
import sys
import time

RANK, SIZE, STEPS, DIRECTORY = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
sys.path.insert(0, sys.argv[5])

import rankscope  # noqa: E402


def meet(number):
    open(f"{DIRECTORY}/{number}.{RANK}", "w").close()
    for other in range(SIZE):
        while not os.path.exists(f"{DIRECTORY}/{number}.{other}"):
            time.sleep(0.0002)


print("recorded", int(rankscope.start()))
files = rankscope.Communicator("files", RANK, SIZE)
for step in range(STEPS):
    rankscope.step(step, samples=8)
    with rankscope.span("outer"), rankscope.span("forward"):
        time.sleep(0.015 if RANK == 1 else 0.001)
    rankscope.counter("queue_bytes", 100 * step)
    with files.collective("all-reduce", bytes=1024):
        meet(step)
with files.collective("send", bytes=64, peer=(RANK + 1) % SIZE, tag=7):
    pass
meet(STEPS)
with files.collective("receive", bytes=64, peer=(RANK - 1) % SIZE, tag=7):
    pass
try:
    files.collective("all-gossip")
except ValueError as error:
    assert "all-gossip" in str(error)
else:
    sys.exit("an unknown operation was taken")
files.close()


class Model:
    factor = 2

    def double(self, number, more=0):
        """Doubles."""
        if number < 0:
            raise ValueError(number)
        return self.factor * number + more


    async def wait(self):
        return 5


model = Model()
for _ in range(2):
    rankscope.span_methods(model, "double", "none", "wait", "factor")
rankscope.span_methods(5, "bit_length")
assert [model.double(3, more=1), model.double(number=4)] == [7, 8] and model.double.__doc__ == "Doubles."
try:
    model.double(-1)
except ValueError:
    pass
else:
    sys.exit("an exception was lost")
assert Model().double(1) == 2 and "double" not in vars(Model()), "other objects stay"
assert asyncio.run(model.wait()) == 5 and model.factor == 2
copied = copy.deepcopy(model)
copied.factor = 3
assert [model.double(1), copied.double(1)] == [2, 3], "a copy calls its own"
