"""What torch's devices have in common, and where they differ: waiting for them, and their memory counters.

In: `cuda`, `mps` or `cpu`. Out: a device that is idle, or its counters in bytes. Only CUDA keeps a peak: the CPU has no
counter at all, and what MPS offers (`torch.mps.driver_allocated_memory`) is the current value.
"""

from __future__ import annotations

from bench.backends.interface import UnsupportedError
from bench.events import Counters
from bench.spec import Device


def require(device: Device) -> None:
    """Raises UnsupportedError where torch does not see the device."""
    import torch

    present = {"cuda": torch.cuda.is_available, "mps": torch.backends.mps.is_available, "cpu": lambda: True}
    if not present[device]():
        raise UnsupportedError(f"torch {torch.__version__} sees no {device} device here")


def synchronize(device: Device) -> None:
    """Wait until all work that was given to the device is done. The CPU works while one waits anyway."""
    import torch

    if device == "cuda":
        torch.cuda.synchronize()
    elif device == "mps":
        torch.mps.synchronize()


def start_counting(device: Device) -> None:
    """Forget the peaks of building, so that the counters speak of training alone.

    Cached blocks go back first: else what building left in the allocator's cache would count as reserved for training.
    """
    import torch

    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def counters(device: Device) -> Counters:
    """The allocator's peaks since `start_counting`, in bytes; None on a device without such a counter."""
    import torch

    if device != "cuda":
        return Counters()
    return Counters(
        framework_peak_bytes=torch.cuda.max_memory_allocated(),
        reserved_peak_bytes=torch.cuda.max_memory_reserved(),
    )
