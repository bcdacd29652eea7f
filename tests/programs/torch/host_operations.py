"""Computes PyTorch's operations on tensors of the stand-in device on the host.

The memory of the stand-in device (tests/host-nccl) is memory of the host. So the CPU's kernel of an operation can work on
it. This module replaces PyTorch's CUDA kernels by it, when it is imported. Kernels that only allocate or make views stay.
The CPU's kernel runs in the call, after all work of the current stream. Operations without a kernel for the CPU fail."""

import ctypes
import warnings

import torch
from torch.utils._pytree import tree_leaves, tree_map

_KEPT = {
    "_local_scalar_dense", "_pin_memory", "_reshape_alias", "as_strided", "empty.memory_format", "empty_strided", "is_pinned",
    "is_set_to", "record_stream", "resize_", "set_", "set_.source_Storage", "set_.source_Storage_storage_offset",
    "set_.source_Tensor", "unfold", "view", "view.dtype", "view_as_complex", "view_as_real",
}


def _on_host(tensor):
    """Returns a tensor of the CPU with the same memory."""
    storage = tensor.untyped_storage()
    count = storage.nbytes() // tensor.element_size()
    if count == 0:
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype)
    memory = (ctypes.c_ubyte * storage.nbytes()).from_address(storage.data_ptr())
    flat = torch.frombuffer(memory, dtype=tensor.dtype, count=count)
    return flat.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())


def _is_on_device(value):
    return isinstance(value, torch.Tensor) and value.is_cuda


def _kernel(operation):
    """Returns a kernel that runs the CPU's."""

    def run(*arguments, **named):
        torch.cuda.current_stream().synchronize()
        devices = [value.device for value in tree_leaves((arguments, named)) if _is_on_device(value)]
        device = devices[0] if devices else torch.device("cuda", torch.cuda.current_device())
        originals = {}

        def to_host(value):
            if isinstance(value, torch.device):
                return torch.device("cpu")
            if not _is_on_device(value):
                return value
            host = _on_host(value)
            originals[id(host)] = (value, host)
            return host

        def to_device(value):
            if not isinstance(value, torch.Tensor):
                return value
            if id(value) in originals:
                return originals[id(value)][0]
            result = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=device)
            _on_host(result).copy_(value)
            return result

        arguments, named = tree_map(to_host, (arguments, named))
        return tree_map(to_device, operation(*arguments, **named))

    return run


def _replace():
    """Returns the library that holds the kernels. They end with it."""
    library = torch.library.Library("aten", "IMPL")
    on_cpu = set(torch._C._dispatch_get_registrations_for_dispatch_key("CPU"))
    on_device = torch._C._dispatch_get_registrations_for_dispatch_key("CUDA")
    # Copies have one kernel for all devices.
    for full in [*on_device, "aten::copy_"]:
        space, _, name = full.partition("::")
        # All overloads, because numbers of the call may have become arguments of type Tensor.
        operation = getattr(torch.ops.aten, name.partition(".")[0], None)
        general = torch._C._dispatch_has_kernel_for_dispatch_key(full, "CompositeExplicitAutograd")
        if space == "aten" and name not in _KEPT and operation is not None and (full in on_cpu or general):
            library.impl(name, _kernel(operation), "CUDA")
    return library


with warnings.catch_warnings():
    # PyTorch warns that kernels are replaced.
    warnings.simplefilter("ignore")
    _library = _replace()
