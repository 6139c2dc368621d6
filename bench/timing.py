"""CPU time, measured so that the noise of a shared machine affects all samples alike."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping


def cpu_ms(run: Callable[[], object]) -> float:
    """Return the CPU time of this process in one call, with a garbage collection before and none during it."""
    gc.collect()
    start = time.process_time()
    run()
    return (time.process_time() - start) * 1000


def interleave(samples: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Take one sample of each in turn, `rounds` times, after one that does not count; return the medians."""
    taken: dict[str, list[float]] = {name: [] for name in samples}
    for number in range(rounds + 1):
        for name, take in samples.items():
            found = take()
            if number:
                taken[name].append(found)
    return {name: round(statistics.median(found), 2) for name, found in taken.items()}
