"""Holding torch to a limit on memory.

In: a device and the bytes that a run may have. Out: the limit in force, and by what means. `hold` is called once the stack is
imported and before anything is built.

- CUDA: the caching allocator is given what the CUDA context leaves. Code that the driver loads later, with the first use of a
  kernel, comes on top and escapes (some ten to some hundred megabytes), and so would managed memory, of which nothing here asks.
- MPS: Metal's allocator in torch, as a share of what Metal recommends.
- The CPU, on Linux: RLIMIT_DATA, which the kernel holds against private writable memory (setrlimit(2), since Linux 4.7), the
  interpreter's and the libraries' included. What imports have mapped and never touched, such as stacks of threads, is added to
  the limit, so that memory in use is what is limited. Mapped files and memory shared between processes escape.
- The CPU elsewhere: the process's own peak is compared with the limit after each step, for macOS keeps no such promise.
"""

from __future__ import annotations

import sys
from pathlib import Path

from bench.backends.interface import Held, OverLimit, UnsupportedError
from bench.spec import Device

STATUS = Path("/proc/self/status")
LEAST_CONTEXT_BYTES = 32 * 2**20
"""Less than any CUDA context takes on a card (100 MB and more): a smaller growth shows that the context stood already."""


def hold(device: Device, capacity_bytes: int) -> Held:
    """Hold this process to that many bytes on the device. Raises OverLimit where it has more already."""
    if device == "cuda":
        return _hold_cuda(capacity_bytes)
    if device == "mps":
        return _hold_mps(capacity_bytes)
    return _hold_cpu(capacity_bytes) if sys.platform == "linux" else Held("accounting", _host_peak_bytes)


def _hold_cuda(capacity_bytes: int) -> Held:
    import torch

    context_bytes = cuda_context_bytes()
    if context_bytes >= capacity_bytes:
        raise OverLimit(f"the CUDA context alone takes {context_bytes:,} bytes, of {capacity_bytes:,} allowed")
    _, total_bytes = torch.cuda.mem_get_info()
    torch.cuda.set_per_process_memory_fraction(min(1.0, (capacity_bytes - context_bytes) / total_bytes))
    return Held("torch-cuda-allocator")


def cuda_context_bytes() -> int:
    """What this process's CUDA context takes of the device's memory. Makes the context where there is none.

    The growth of the device's use by NVML, which needs no context of its own, while the context is made. Where it stood
    already, all that is in use now but what torch holds: an upper bound, for others' memory is in it. Raises UnsupportedError
    without NVML.
    """
    import torch

    try:
        before_bytes = torch.cuda.device_memory_used()
        torch.zeros(1, device="cuda")
        torch.cuda.synchronize()
        after_bytes = torch.cuda.device_memory_used()
    except (ImportError, RuntimeError) as error:
        raise UnsupportedError(f"a limit cannot be held without NVML, which tells the context's size: {error}") from error
    held_bytes = torch.cuda.memory_reserved()  # the tensor's block of 2 MiB, no part of the context
    grown_bytes: int = after_bytes - before_bytes - held_bytes
    if grown_bytes >= LEAST_CONTEXT_BYTES:
        return grown_bytes
    free_bytes, total_bytes = torch.cuda.mem_get_info()
    in_use_bytes: int = total_bytes - free_bytes - held_bytes
    return in_use_bytes


def _hold_mps(capacity_bytes: int) -> Held:
    """Metal's recommendation is the whole of which torch takes a share; it takes at most twice that."""
    import torch

    torch.mps.set_per_process_memory_fraction(min(2.0, capacity_bytes / torch.mps.recommended_max_memory()))
    return Held("torch-mps-allocator")


def _hold_cpu(capacity_bytes: int) -> Held:
    import resource

    used_bytes, mapped_bytes = _status_bytes("RssAnon"), _status_bytes("VmData")
    if used_bytes >= capacity_bytes:
        raise OverLimit(f"the imported libraries alone take {used_bytes:,} bytes, of {capacity_bytes:,} allowed")
    untouched_bytes = max(0, mapped_bytes - used_bytes)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted_bytes = capacity_bytes + untouched_bytes
    soft_bytes = wanted_bytes if hard == resource.RLIM_INFINITY else min(wanted_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft_bytes, hard))
    return Held("rlimit-data")


def _status_bytes(field: str) -> int:
    """One line of /proc/self/status (proc(5)). Raises UnsupportedError where the kernel does not give it."""
    try:
        lines = STATUS.read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))
    except (OSError, StopIteration) as error:
        raise UnsupportedError(f"a limit cannot be held: {STATUS} gives no {field}") from error


def _host_peak_bytes() -> int:
    """The most memory that this process has had, in bytes; macOS's getrusage(2) counts bytes, other systems kibibytes."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
