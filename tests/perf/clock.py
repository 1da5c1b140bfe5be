"""The clock of the benchmarks that are compared with a baseline: processor time instead of time on the wall.

In: nothing. Out: the seconds of processor that this process and its ended children have used so far. A neighbour on a shared
machine doubles what a stopwatch shows; what it adds here, by sharing caches, is some per cent. Left out is waiting for a disk: of
`append` that is the flush, which no change of ours makes faster or slower.
"""

import resource
import time


def processor_s() -> float:
    """Seconds of processor time, as the kernel counts it, of this process and of those of its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
