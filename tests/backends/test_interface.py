"""Every backend of the table loads without its framework, and says what it needs."""

import subprocess
import sys

import pytest

from bench.backends.interface import BACKENDS, absent, load_backend
from bench.spec import BACKENDS as NAMES
from bench.spec import DEVICES, BackendName

FRAMEWORKS = ("torch", "transformers", "mlx", "mlx_lm", "trl", "peft", "bitsandbytes", "datasets", "accelerate", "unsloth")


def test_the_table_holds_every_backend_that_suites_can_name() -> None:
    assert set(BACKENDS) == set(NAMES)


@pytest.mark.parametrize("name", BACKENDS)
def test_a_backend_describes_itself(name: BackendName) -> None:
    backend = load_backend(name)
    assert backend.name == name
    assert backend.devices
    assert set(backend.devices) <= set(DEVICES)
    assert name == "fake" or set(backend.extras) == set(backend.devices)
    assert name == "unsloth" or backend.missing("cpu") == []


def test_absent_packages_are_named() -> None:
    assert absent("json", "no_such_package", "torch") == ["no_such_package"]


@pytest.mark.parametrize("name", BACKENDS)
def test_loading_a_backend_imports_no_framework(name: BackendName) -> None:
    code = (
        "import sys\nfrom bench.backends.interface import load_backend\n"
        f"load_backend({name!r})\nprint(sorted(set({FRAMEWORKS!r}) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
