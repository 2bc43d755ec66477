"""What windows must keep: within the run, with packets in them, and apart from each other."""

from __future__ import annotations

from collections.abc import Iterator

from latlab.scenario.findings import Finding, Path
from latlab.scenario.sketch import Sketch, where_known
from latlab.scenario.streams import launches_between
from latlab.scenario.units import format_duration
from latlab.scenario.windows import Window


def window_is_in_the_run(sketch: Sketch, path: Path, window: Window) -> Iterator[Finding]:
    """A window ends after it begins, before the streams do, and after the warm-up."""
    end = (*path, "to")
    if window.to <= window.from_:
        begins = format_duration(window.from_)
        yield Finding(end, f"{format_duration(window.to)} is not after its beginning", f"more than {begins}")
    elif window.to > sketch.top.duration:
        duration = format_duration(sketch.top.duration)
        yield Finding(end, f"{format_duration(window.to)} is beyond the run", f"at most the duration, {duration}")
    elif window.to <= sketch.top.warmup:
        warmup = format_duration(sketch.top.warmup)
        yield Finding(end, f"all of it is in the warm-up of {warmup}", f"more than {warmup}")


def window_has_packets(sketch: Sketch, path: Path, window: Window) -> Iterator[Finding]:
    """Of each of its streams a packet is launched in it after the warm-up."""
    begin, end = max(window.from_, sketch.top.warmup), window.to
    if not begin < end <= sketch.top.duration:
        return  # which is reported as such
    streams = {name: stream for name, stream in sketch.streams.items() if window.is_of(name)}
    packets = where_known(streams, lambda _, one: launches_between(one.offset, one.period, begin, end))
    for name in (name for name, count in packets if count == 0):
        period = format_duration(sketch.streams[name].period)
        yield Finding(path, f"no packet of {name} is launched in it", f"a longer window: its period is {period}")


def windows_are_apart(sketch: Sketch) -> Iterator[Finding]:
    """No packet is in two of them."""
    found = list(where_known(sketch.windows, lambda _, one: (one.from_, one.to, one)))
    for place, (index, (begin, end, window)) in enumerate(found):
        for other, (before, after, taken) in found[:place]:
            if begin < after and before < end and _share_a_stream(sketch, window, taken):
                what = f"overlaps windows[{other}], {format_duration(before)} to {format_duration(after)}"
                yield Finding(("windows", index), what, "windows that do not overlap, or of other streams")
                break


def _share_a_stream(sketch: Sketch, one: Window, other: Window) -> bool:
    return any(one.is_of(str(name)) and other.is_of(str(name)) for name in sketch.names.get("streams", ()))
