"""Each edge by its real message: what it stands for on which backend, and what to do where it is no want of memory.

The messages are as users posted them; `bench.backends.faults` says where.
"""

import pytest

from bench.backends.faults import remedy
from bench.backends.hf import HuggingFace
from bench.backends.mlx import Mlx

MPS = (
    "MPS backend out of memory (MPS allocated: 11.14 GB, other allocations: 6.65 GB, max allowed: 18.13 GB). Tried to allocate "
    "375.40 MB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations (may "
    "cause system failure)."
)
CUDA = (
    "CUDA out of memory. Tried to allocate 30.00 GiB. GPU 0 has a total capacty of 15.99 GiB of which 0 bytes is free. Including "
    "non-PyTorch memory, this process has 17179869184.00 GiB memory in use. Of the allocated memory 30.00 GiB is allocated by "
    "PyTorch, and 0 bytes is reserved by PyTorch but unallocated."
)
CPU = (
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 102400000 "
    "bytes. Error code 12 (Cannot allocate memory)"
)
TORCH = {
    CUDA: "oom_device",
    MPS: "oom_device",
    CPU: "oom_host",
    "CUDA error: out of memory": "oom_device",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`": "oom_device",
    "cuDNN error: CUDNN_STATUS_ALLOC_FAILED": "oom_device",
    "Invalid buffer size: 74.51 GB": "oom_device",
    "Error out of memory at line 351 in file /home/developer/bitsandbytes/csrc/pythonInterface.c": "oom_device",
    "unable to mmap 4194304 bytes from file </tmp/m>: Cannot allocate memory (12)": "oom_host",
    "what():  std::bad_alloc": "oom_host",
    "CUDA error: the launch timed out and was terminated": "device_lost",
    "CUDA driver error: device not ready": None,
    "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)": None,
}
ABORT = "libc++abi: terminating due to uncaught exception of type std::runtime_error: "
FAILED = "[METAL] Command buffer execution failed: "
METAL = {
    "Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)": "oom_device",
    "Impacting Interactivity (0000000e:kIOGPUCommandBufferCallbackErrorImpactingInteractivity)": "crashed",
    "Caused GPU Timeout Error (00000002:kIOGPUCommandBufferCallbackErrorTimeout).": "crashed",
    "Caused GPU Hang Error (00000003:kIOGPUCommandBufferCallbackErrorHang)": "crashed",
    "Invalid Resource (00000009:kIOGPUCommandBufferCallbackErrorInvalidResource)": "crashed",
    "Ignored (for causing prior GPU errors) (00000004:kIOGPUCommandBufferCallbackErrorSubmissionsIgnored)": "device_lost",
}
RESOURCES = "[metal::malloc] Resource limit (499000) exceeded."


@pytest.mark.parametrize(("message", "outcome"), TORCH.items(), ids=lambda each: str(each)[:40])
def test_torch(message: str, outcome: str | None) -> None:
    assert HuggingFace().fault(RuntimeError(message)) == outcome


@pytest.mark.parametrize(("message", "outcome"), METAL.items(), ids=lambda each: str(each)[:40])
def test_metal_says_the_same_by_an_exception_and_by_an_abort(message: str, outcome: str) -> None:
    assert Mlx().fault(RuntimeError(FAILED + message)) == outcome
    assert Mlx().fault(RuntimeError(ABORT + FAILED + message)) == outcome


def test_a_resource_limit_counts_buffers() -> None:
    assert Mlx().fault(RuntimeError(RESOURCES)) == "crashed"
    assert "buffers, not bytes" in (remedy(RESOURCES) or "")


def test_what_is_no_want_of_memory_has_a_remedy_and_what_is_one_has_none() -> None:
    for message, outcome in METAL.items():
        assert (remedy(FAILED + message) is not None) == (outcome == "crashed"), message
    for message, outcome in TORCH.items():
        assert (remedy(message) is not None) == ("device not ready" in message), (message, outcome)
    assert "display off" in (remedy("Impacting Interactivity") or "")
    assert "ulimit -u" in (remedy("libgomp: Thread creation failed: Resource temporarily unavailable") or "")
