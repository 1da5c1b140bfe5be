"""Whose processes use a card: the worker's memory on it, and whether anybody else computes there.

In: a card, the worker's process. Out: `memory_of_process`, `foreign_processes`, `foreign_utilization`, each left out with its
reason where it cannot be known. "Nobody else" is said only where it is known, in one of two ways. Where this process lives in the
kernel's first pid namespace, the driver lists every process. In a container it does not: older drivers list pids of the host,
newer ones only those of the container's own namespace (nvidia-docker issue 1483; open-gpu-kernel-modules, `os_find_ns_pid`), and
under WSL2 it leaves out what Windows runs. There the card's memory decides: a process that computes holds a context of more than
`CONTEXT_BYTES`, so where the listed processes account for what is in use, nobody hides.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.meters.interface import Quantity, Value
from bench.meters.nvml_card import NOT_FOUND, Card, NotGiven

FIRST_PID_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO, 0xEFFFFFFC, of the kernel's include/linux/proc_ns.h."""
CONTEXT_BYTES = 64 * 2**20
"""Less than a CUDA context takes on cards of this decade (100 MB and more), more than a card at rest shows (a few MB)."""
GRAPHICS_PERCENT = 2
"""A process that only draws counts as foreign from this share of the card on: a desktop that redraws a clock stays below it."""
COMPUTE = ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetComputeRunningProcesses_v2")
GRAPHICS = ("nvmlDeviceGetGraphicsRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses_v2")


def why_incomplete(proc: Path = Path("/proc"), wsl_gpu: Path = Path("/dev/dxg")) -> str | None:
    """Why the driver's list may leave processes out; None where it lists all. `/dev/dxg` is the GPU of WSL2."""
    if wsl_gpu.exists():
        return "under WSL2 the driver does not list what Windows runs"
    try:
        namespace = str((proc / "self/ns/pid").readlink())
    except OSError:
        return "the system does not tell whether this is a container, where the driver does not list everybody's processes"
    return None if namespace == FIRST_PID_NAMESPACE else "in a container the driver does not list everybody's processes"


def parent_of(pid: int) -> int | None:
    """The parent's pid; None where there is no such process here."""
    import psutil

    try:
        return int(psutil.Process(pid).ppid())
    except psutil.Error:
        return None


class ProcessWatch:
    """Reads a card's process lists for one gauge. `missing` says why a quantity is left out."""

    def __init__(self, card: Card, pid: int | None) -> None:
        self.missing: dict[Quantity, str] = {}
        self._card = card
        self._pid = pid
        self._hiding = why_incomplete()
        self._own: set[int] = set() if pid is None else {pid}
        self._was_listed = False
        self._doubts = 0
        self._distrusted = False
        self._seen_until_us = 0
        self._answers = 0

    def read(self) -> list[Value]:
        """What can be known now. Raises NotGiven where the driver gives no list, and DeviceLost."""
        try:
            before_bytes = self._used_bytes()
            listed: list[Any] = self._card.ask(*COMPUTE)
        except NotGiven as why:
            self.missing |= {"memory_of_process": str(why), "foreign_processes": str(why), "foreign_utilization": str(why)}
            raise
        used_bytes = min(before_bytes, self._used_bytes())  # both sides of the list: the worker may allocate or free meanwhile
        own = [process for process in listed if self._is_own(process.pid)]
        self._was_listed |= bool(own)
        return [*self._memory(own), *self._foreign(listed, own, used_bytes)]

    def _memory(self, own: Sequence[Any]) -> list[Value]:
        """The worker's. `usedGpuMemory` is None under WSL2 and Windows (WDDM), and in containers of some drivers None or 0."""
        if own and all(process.usedGpuMemory for process in own):
            self.missing.pop("memory_of_process", None)
            return [Value("memory_of_process", float(sum(process.usedGpuMemory for process in own)))]
        if own:
            self.missing["memory_of_process"] = "the driver gives no memory per process here (WSL2, Windows, some containers)"
        elif not self._was_listed:
            self.missing["memory_of_process"] = self._unlisted()
        return []

    def _foreign(self, listed: Sequence[Any], own: Sequence[Any], used_bytes: float) -> list[Value]:
        """Others' processes; nothing while the worker is not listed, since a list without it may lack others too."""
        shares = self._shares()
        if self._pid is not None and not own:
            return [] if self._was_listed else self._unknown(self._unlisted())
        if self._hiding is not None and used_bytes - sum(process.usedGpuMemory or 0 for process in listed) >= CONTEXT_BYTES:
            self._doubts += 1
            self._distrusted |= self._doubts > 1  # twice running: no passing state such as a context that is just being made
            return self._unknown(f"{self._hiding}, and those listed do not account for the memory in use")
        self._doubts = 0
        return [] if self._distrusted else self._counted(listed, shares)

    def _counted(self, listed: Sequence[Any], shares: dict[int, int] | None) -> list[Value]:
        drawing = {process.pid for process in self._graphics()} - self._own
        if shares is None:
            self.missing["foreign_utilization"] = "the driver does not give the use of the device per process here"
            if drawing:
                self.missing["foreign_processes"] = (
                    "processes draw on the card, and the driver does not give how much they use it"
                )
                return []
            shares = {}
        else:
            self.missing.pop("foreign_utilization", None)
        self.missing.pop("foreign_processes", None)
        foreign = {process.pid for process in listed if process.pid not in self._own and not self._is_gone(process.pid)}
        foreign |= {pid for pid in drawing if shares.get(pid, 0) >= GRAPHICS_PERCENT}
        return [Value("foreign_processes", float(len(foreign))), *self._utilization(shares)]

    def _utilization(self, shares: dict[int, int]) -> list[Value]:
        if "foreign_utilization" in self.missing or self._answers < 2:
            return []
        percent = sum(share for pid, share in shares.items() if not self._is_own(pid))
        return [Value("foreign_utilization", min(percent, 100) / 100)]

    def _shares(self) -> dict[int, int] | None:
        """Per cent of the card's time by process since the reading before; None where the driver does not give it.

        The driver leaves out processes at zero, answers "not found" where there are none, and some drivers fill the rest of the
        buffer with rubbish beyond 100 (nvtop issue 110). The first answer reaches back before this gauge and is not used.
        """
        try:
            samples = self._card.ask("nvmlDeviceGetProcessUtilization", arguments=(self._seen_until_us,))
        except NotGiven as why:
            if why.code != NOT_FOUND:
                return None
            samples = []
        samples = [sample for sample in samples if sample.smUtil <= 100]
        self._seen_until_us = max([self._seen_until_us, *(sample.timeStamp for sample in samples)])
        self._answers += 1
        return {sample.pid: sample.smUtil for sample in samples} if self._answers > 1 else {}

    def _graphics(self) -> list[Any]:
        try:
            return list(self._card.ask(*GRAPHICS))
        except NotGiven:
            return []

    def _used_bytes(self) -> float:
        """Memory in use; infinite where it is not given, so that nothing accounts for it."""
        try:
            return self._card.memory_used_bytes()
        except NotGiven:
            return float("inf")

    def _is_own(self, pid: int) -> bool:
        """Whether it is the worker or descends from it. Once own, always own: a child may outlive its parent a little."""
        above: int | None = pid
        while above and self._own and above not in self._own:
            above = parent_of(above)
        if above and self._own:
            self._own.add(pid)
            return True
        return False

    def _is_gone(self, pid: int) -> bool:
        """Whether a listed process has ended since. In a container one that cannot be seen is of another namespace, not gone."""
        return self._hiding is None and parent_of(pid) is None

    def _unlisted(self) -> str:
        return "no worker is watched" if self._pid is None else "the driver does not list the worker among the card's processes"

    def _unknown(self, reason: str) -> list[Value]:
        self.missing |= {"foreign_processes": reason, "foreign_utilization": reason}
        return []
