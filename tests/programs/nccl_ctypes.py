"""Uses NCCL as Python programs without a binding do: by ctypes, which asks the library for each function and so
bypasses a preload.

  nccl_ctypes.py RANK SIZE STORE LIBRARY CALLS
"""

import ctypes
import os
import sys
import time


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


class Stream(ctypes.Structure):
    """Stream of the double (tests/doubles/nccl/nccl_double.h)."""

    _fields_ = [("launched", ctypes.c_long), ("capturing", ctypes.c_int)]


SUM = 0
FLOAT32 = 7


def main():
    rank, size = int(sys.argv[1]), int(sys.argv[2])
    store, library, calls = sys.argv[3], sys.argv[4], int(sys.argv[5])
    nccl = ctypes.CDLL(library)
    nccl.ncclCommInitRank.argtypes = [
        ctypes.POINTER(ctypes.c_void_p),
        ctypes.c_int,
        UniqueId,
        ctypes.c_int,
    ]
    pointer, count, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    nccl.ncclAllReduce.argtypes = [pointer, pointer, count, number, number, pointer, pointer]
    nccl.ncclSend.argtypes = [pointer, count, number, number, pointer, pointer]
    nccl.ncclRecv.argtypes = [pointer, count, number, number, pointer, pointer]
    nccl.ncclCommDestroy.argtypes = [pointer]

    def fine(result):
        assert result == 0, result

    identity = UniqueId()
    path = os.path.join(store, "id")
    if rank == 0:
        fine(nccl.ncclGetUniqueId(ctypes.byref(identity)))
        with open(path + ".fresh", "wb") as file:
            file.write(bytes(identity))
        os.rename(path + ".fresh", path)
    else:
        while not os.path.exists(path):
            time.sleep(0.001)
        with open(path, "rb") as file:
            identity = UniqueId.from_buffer_copy(file.read())
    communicator = ctypes.c_void_p()
    fine(nccl.ncclCommInitRank(ctypes.byref(communicator), size, identity, rank))
    buffer = ctypes.create_string_buffer(1 << 16)
    stream = Stream()
    for call in range(calls):
        fine(
            nccl.ncclAllReduce(
                buffer, buffer, 100 + call, FLOAT32, SUM, communicator, ctypes.byref(stream)
            )
        )
        fine(nccl.ncclGroupStart())
        fine(nccl.ncclSend(buffer, 50, FLOAT32, (rank + 1) % size, communicator, ctypes.byref(stream)))
        fine(nccl.ncclRecv(buffer, 50, FLOAT32, (rank - 1) % size, communicator, ctypes.byref(stream)))
        fine(nccl.ncclGroupEnd())
    fine(nccl.ncclCommDestroy(communicator))


main()
