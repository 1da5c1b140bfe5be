"""What this computer is.

In: the operating system and the GPU driver. Out: a `Machine`, named after a profile of `suites/catalog/machines.toml` where
the hardware matches one, else after the hardware itself. No framework is imported: an NVIDIA card is found through its driver
(NVML), Apple silicon through the system's name.
"""

from __future__ import annotations

import hashlib
import platform
import re
import socket
import subprocess
import uuid
from pathlib import Path

from bench.catalog import MachineProfile, machine_profile, machine_profiles
from bench.files.layout import partition_name
from bench.record import Gpu, Machine
from bench.spec import BadInput, Device

GIB = 2**30
MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))


def this_machine(name: str | None = None) -> Machine:
    """This computer; `name` overrides the name found. Raises BadInput for a name that cannot be a folder's."""
    system, architecture = platform.system(), platform.machine()
    gpus = nvidia_gpus()
    apple = (system, architecture) == ("Darwin", "arm64")
    chip, memory_bytes = _chip(system), _memory_bytes()
    return Machine(
        name=checked_name(name) if name is not None else name_of(chip, memory_bytes, gpus, machine_profiles()),
        machine_id=machine_id(gpus),
        system=system,
        architecture=architecture,
        os_version=_os_version(system),
        chip=chip,
        cpu_cores=_cpu_cores(),
        memory_bytes=memory_bytes,
        gpus=gpus,
        devices=devices(apple, gpus),
    )


def catalogue_machine(name: str) -> Machine:
    """A machine of the catalogue, as far as its profile tells. Raises BadInput for a name that the catalogue lacks."""
    profile = machine_profile(name)
    gpus = (Gpu(profile.gpu, profile.memory_bytes),) if profile.gpu else ()
    return Machine(
        name=name,
        machine_id=f"profile-{name}",
        system="Linux" if gpus else "Darwin",
        architecture="x86_64" if gpus else "arm64",
        os_version="unknown",
        chip=profile.chip or "unknown",
        cpu_cores=0,
        memory_bytes=profile.memory_bytes,
        gpus=gpus,
        devices=devices(not gpus, gpus),
    )


def devices(apple: bool, gpus: tuple[Gpu, ...]) -> tuple[Device, ...]:
    """The devices on which a backend can compute, fastest first."""
    cards: tuple[Device, ...] = ("cuda",) if gpus else ()
    silicon: tuple[Device, ...] = ("metal", "mps") if apple else ()
    return (*cards, *silicon, "cpu")


def name_of(chip: str, memory_bytes: int, gpus: tuple[Gpu, ...], profiles: tuple[MachineProfile, ...]) -> str:
    """The profile that this hardware matches, else a name made of the chip, its memory and its first GPU."""
    for profile in profiles:
        if _matches(profile, chip, memory_bytes, gpus):
            return profile.name
    parts = [chip, f"{round(memory_bytes / GIB)}gib", *(gpu.name for gpu in gpus[:1])]
    return re.sub(r"[^a-z0-9]+", "-", " ".join(parts).lower().replace("(r)", "").replace("(tm)", "")).strip("-")


def _matches(profile: MachineProfile, chip: str, memory_bytes: int, gpus: tuple[Gpu, ...]) -> bool:
    """A GPU profile matches by the board's name and memory, any other by chip and main memory; memory within 5%."""
    if profile.gpu is not None:
        return any(gpu.name == profile.gpu and _close(gpu.memory_bytes, profile.memory_bytes) for gpu in gpus)
    return profile.chip is not None and profile.chip == chip and _close(memory_bytes, profile.memory_bytes)


def _close(found: int | None, expected: int) -> bool:
    return found is not None and abs(found - expected) <= 0.05 * expected


def checked_name(name: str) -> str:
    """The name if it can be a folder's and a partition's; BadInput with the rule otherwise."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise BadInput(f"machine name {name!r}: use letters, digits, '.', '_' and '-' (100 at most), a letter or digit first")
    try:
        partition_name(name)
    except ValueError as error:
        raise BadInput(str(error)) from None
    return name


def nvidia_gpus() -> tuple[Gpu, ...]:
    """The NVIDIA cards that the driver shows; empty without a driver. Values that a card does not give are None."""
    try:
        import pynvml as nvml
    except ImportError:
        return ()
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return ()
    try:
        driver = _text(nvml.nvmlSystemGetDriverVersion())
        return tuple(_gpu(index, driver) for index in range(nvml.nvmlDeviceGetCount()))
    except nvml.NVMLError:
        return ()
    finally:
        nvml.nvmlShutdown()


def _gpu(index: int, driver: str) -> Gpu:
    import pynvml as nvml

    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    try:
        memory_bytes = int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
    except nvml.NVMLError:
        memory_bytes = None
    return Gpu(_text(nvml.nvmlDeviceGetName(handle)), memory_bytes, _text(nvml.nvmlDeviceGetUUID(handle)), driver)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def machine_id(gpus: tuple[Gpu, ...] = ()) -> str:
    """12 hex digits that tell this computer from another of the same kind: over its own id and its GPUs' ids."""
    own = _platform_uuid() or f"{socket.gethostname()}-{uuid.getnode():x}"
    text = "|".join([own, *sorted(gpu.uuid or "" for gpu in gpus)])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _platform_uuid() -> str | None:
    for path in MACHINE_IDS:
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        if text:
            return text
    found = re.search(r'"IOPlatformUUID" = "([^"]+)"', _output("ioreg", "-rd1", "-c", "IOPlatformExpertDevice"))
    return found.group(1) if found else None


def _chip(system: str) -> str:
    if system == "Darwin":
        return _output("sysctl", "-n", "machdep.cpu.brand_string") or platform.processor()
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found.group(1).strip() if found else platform.processor() or platform.machine()


def _os_version(system: str) -> str:
    if system == "Darwin":
        return f"macOS {platform.mac_ver()[0]}"
    try:
        name = platform.freedesktop_os_release().get("PRETTY_NAME", system)
    except OSError:
        name = system
    return f"{name}, kernel {platform.release()}"


def _memory_bytes() -> int:
    import psutil

    return int(psutil.virtual_memory().total)


def _cpu_cores() -> int:
    import psutil

    return psutil.cpu_count(logical=True) or 1


def _output(*command: str) -> str:
    """A command's output, stripped; empty where it does not exist or fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
