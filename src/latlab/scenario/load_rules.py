"""What each load that keeps one host or guest busy must keep."""

from __future__ import annotations

from collections.abc import Iterator

from latlab.scenario.findings import Finding, Path
from latlab.scenario.loads import Load, LoadOn, StressNg
from latlab.scenario.sketch import Sketch
from latlab.scenario.tuning import Tuning


def work_has_its_size(_: Sketch, path: Path, load: Load) -> Iterator[Finding]:
    """Memory and files have a size, and files a folder; computing has neither."""
    if not isinstance(load, StressNg):
        return
    if load.what == "cpu" and load.size is not None:
        yield Finding((*path, "size"), "what: cpu uses almost no memory", "what: memory or io, or no size")
    if load.what != "io" and load.path is not None:
        yield Finding((*path, "path"), f"{load.what} writes no files", "what: io, or no path")


def files_are_on_a_disk(sketch: Sketch, path: Path, load: Load) -> Iterator[Finding]:
    """A guest of ours has its files in its memory: what is written there is no input or output."""
    if isinstance(load, StressNg) and load.what == "io" and load.on in sketch.guests:
        guest = sketch.guests[load.on]
        if guest.is_ours:
            what = f"{load.on} has its files in memory, not on a disk"
            expected = f"kind: flood from {load.on}, whose packets its hypervisor carries; or io on its host"
            yield Finding((*path, "what"), what, expected)


def work_is_confined(sketch: Sketch, path: Path, load: Load) -> Iterator[Finding]:
    """What never sleeps leaves its machine a CPU."""
    if not isinstance(load, LoadOn):
        return
    own = sketch.tuning.get(load.on, Tuning()).load
    if own.fifo is not None and own.cpus is None:
        what = f"{load.kind} at SCHED_FIFO {own.fifo} on every CPU would stop {load.on}"
        yield Finding(path, what, f"tuning.{load.on}.load.cpus: [n], or its fifo: null")
