"""What limits, windows and triggers must keep: that the results have them, and that they can be measured."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from latlab.model.statistics import STATISTICS
from latlab.scenario.findings import Mistake, Path
from latlab.scenario.hosts import BoardHost
from latlab.scenario.limits import (
    COUNTS,
    METRICS,
    PROBE_COUNTED,
    PROBE_METRICS,
    TIMER_COUNTED,
    TIMER_METRICS,
    AcceptLimit,
    parse_limit,
)
from latlab.scenario.models import Window
from latlab.scenario.probes import Between, OnOne, TimerProbe
from latlab.scenario.sketch import Sketch, known, where_known
from latlab.scenario.streams import PAIR, Stream, launches, launches_between
from latlab.scenario.units import format_duration
from latlab.scenario.watched import not_judged

NEEDED: Final = {one.key: one.smallest_n for one in STATISTICS if one.share}
"""How many packets a percentile needs."""


def limits_are_statistics(sketch: Sketch) -> Iterator[Mistake]:
    """Every accepted limit is one of a statistic that results have of a stream, of a leg, or of a probe."""
    for path, value in sketch.accept.items():
        limit = parse_limit(path, value)
        if isinstance(limit, Mistake):
            yield limit
        else:
            yield from known(_limit_fits(sketch, limit))


def _limit_fits(sketch: Sketch, limit: AcceptLimit) -> Iterator[Mistake]:
    name, _, leg = limit.stream.partition(".")
    of_timers = limit.group not in METRICS and limit.group in TIMER_METRICS
    of_timers |= limit.group == COUNTS and limit.statistic in TIMER_COUNTED
    of_probes = limit.group in PROBE_METRICS or (limit.group == COUNTS and limit.statistic in PROBE_COUNTED)
    where = ("accept", limit.path)
    if name in sketch.names.get("streams", ()):
        if leg and not (leg == PAIR and any(one.prp == name for one in sketch.streams.values())):
            yield Mistake(where, f"{name} is a stream: it has no leg {leg}", f"{name}.{limit.group}, or a probe")
        elif of_probes:
            what = f"{name} is a stream: its packets are not answered"
            yield Mistake(where, what, "counts.lost" if limit.group == COUNTS else f"one of {', '.join(METRICS)}")
        elif of_timers:
            yield Mistake(where, f"{name} is a stream, not a timer", f"one of {', '.join(METRICS)}")
        return
    probe = sketch.probes.get(name)
    if probe is None:
        return
    if leg == PAIR:
        yield Mistake(where, f"{name} is a probe: it has no copies", f"{name}.{limit.group}")
        return
    if isinstance(probe, OnOne):
        yield from _timer_has(probe, name, leg, limit)
        return
    if of_timers:
        yield Mistake(where, f"{name} sends packets: it is not a timer", f"{name}.round_trip")
        return
    if leg and not probe.is_recorded:
        yield Mistake(where, f"{probe.kind} does not separate {leg} from the other direction", f"{name}.round_trip")
    elif not leg and limit.group in METRICS:
        legs = f"{name}.up.{limit.group} or {name}.down.{limit.group}"
        what = f"{name} is a probe: {limit.group} belongs to one of its directions"
        yield Mistake(where, what, legs if probe.is_recorded else f"{name}.round_trip")
    elif leg and of_probes:
        yield Mistake(where, f"{limit.group} belongs to the whole probe", limit.path.replace(f".{leg}.", ".", 1))


def _timer_has(probe: OnOne, name: str, leg: str, limit: AcceptLimit) -> Iterator[Mistake]:
    where = ("accept", limit.path)
    is_own = isinstance(probe, TimerProbe)
    if leg:
        yield Mistake(where, f"{name} is a timer: it has no leg {leg}", f"{name}.wakeup")
    elif limit.group == COUNTS and (not is_own or limit.statistic not in TIMER_COUNTED):
        counted = f"{name}.counts.{' or '.join(TIMER_COUNTED)}" if is_own else f"{name}.wakeup"
        yield Mistake(where, f"{probe.kind} counts no {limit.statistic}", counted)
    elif limit.group not in (*TIMER_METRICS, COUNTS):
        yield Mistake(where, f"{name} is a timer: it sends nothing", f"one of {', '.join(probe.metrics)}")
    elif limit.group != COUNTS and limit.group not in probe.metrics:
        why = "without a trace a timer" if is_own else probe.kind
        yield Mistake(where, f"{why} has no {limit.group}", f"one of {', '.join(probe.metrics)}")


def limits_can_be_measured(sketch: Sketch) -> Iterator[Mistake]:
    """A percentile that is limited has the packets it needs."""
    pairs = {name: one for (_, name), one in sketch.pairs.items() if getattr(one, "period", None) is not None}
    timers = {name: probe for name, probe in sketch.probes.items() if isinstance(probe, TimerProbe)}
    counted: dict[str, Stream | Between | TimerProbe] = {**pairs, **timers}
    packets = dict(where_known(counted, partial(_counted, sketch)))
    for path, value in sketch.accept.items():
        limit = parse_limit(path, value)
        if isinstance(limit, Mistake):
            continue
        name = limit.stream.partition(".")[0]
        needed, there = NEEDED.get(limit.statistic_key, 0), packets.get(name)
        if there is not None and 0 <= there < needed:
            what = f"{name} has {there} packets after the warm-up, too few for {limit.statistic}"
            yield Mistake(("accept", path), what, f"a duration with {needed} or more, or another statistic")


def _counted(sketch: Sketch, _: str, one: Any) -> int:
    """How many packets are launched after the warm-up."""
    offset = getattr(one, "offset", 0)
    return launches(offset, one.period, sketch.top.duration) - launches(offset, one.period, sketch.top.warmup)


# What windows must keep: within the run, with packets in them, and apart from each other.


def window_is_in_the_run(sketch: Sketch, path: Path, window: Window) -> Iterator[Mistake]:
    """A window ends after it begins, before the streams do, and after the warm-up."""
    end = (*path, "to")
    if window.to <= window.from_:
        begins = format_duration(window.from_)
        yield Mistake(end, f"{format_duration(window.to)} is not after its beginning", f"more than {begins}")
    elif window.to > sketch.top.duration:
        duration = format_duration(sketch.top.duration)
        yield Mistake(end, f"{format_duration(window.to)} is beyond the run", f"at most the duration, {duration}")
    elif window.to <= sketch.top.warmup:
        warmup = format_duration(sketch.top.warmup)
        yield Mistake(end, f"all of it is in the warm-up of {warmup}", f"more than {warmup}")


def window_has_packets(sketch: Sketch, path: Path, window: Window) -> Iterator[Mistake]:
    """Of each of its streams a packet is launched in it after the warm-up."""
    begin, end = max(window.from_, sketch.top.warmup), window.to
    if not begin < end <= sketch.top.duration:
        return  # which is reported as such
    streams = {name: stream for name, stream in sketch.streams.items() if window.is_of(name)}
    packets = where_known(streams, lambda _, one: launches_between(one.offset, one.period, begin, end))
    for name in (name for name, count in packets if count == 0):
        period = format_duration(sketch.streams[name].period)
        yield Mistake(path, f"no packet of {name} is launched in it", f"a longer window: its period is {period}")


def windows_are_apart(sketch: Sketch) -> Iterator[Mistake]:
    """No packet is in two of them."""
    found = list(where_known(sketch.windows, lambda _, one: (one.from_, one.to, one)))
    for place, (index, (begin, end, window)) in enumerate(found):
        for other, (before, after, taken) in found[:place]:
            if begin < after and before < end and _share_a_stream(sketch, window, taken):
                what = f"overlaps windows[{other}], {format_duration(before)} to {format_duration(after)}"
                yield Mistake(("windows", index), what, "windows that do not overlap, or of other streams")
                break


def _share_a_stream(sketch: Sketch, one: Window, other: Window) -> bool:
    return any(one.is_of(str(name)) and other.is_of(str(name)) for name in sketch.names.get("streams", ()))


# What a trigger must keep: packets that a listener judges, on a machine that it reaches in time.


_PATH = ("trigger",)


def trigger_has_streams(sketch: Sketch) -> Iterator[Mistake]:
    """Where there is a trigger a listener judges packets, in some cell at least."""
    if sketch.top.trigger is None or sketch.names.get("streams", ("unknown",)):
        return
    what = "there is no stream whose listener could apply the trigger"
    yield Mistake(_PATH, what, "a stream; or no trigger; or `trigger` of a flow")


def flow_trigger_judges(sketch: Sketch) -> Iterator[Mistake]:
    """What a flow's trigger judges passes two points in one direction each, and shows its payload."""
    for name, flow in where_known(sketch.top.watched, lambda _, flow: flow):
        if flow.trigger and (found := not_judged(flow.trigger, flow.at, flow.snap)):
            yield Mistake(("flows", name, "trigger"), *found)


def trigger_is_in_real_time(sketch: Sketch) -> Iterator[Mistake]:
    """The lab passes on what is to be kept in real time: a board in virtual time does not wait for it."""
    flows = where_known(sketch.top.watched, lambda _, flow: flow)
    path: Path | None = _PATH if sketch.top.trigger else None
    path = path or next((("flows", name, "trigger") for name, flow in flows if flow.trigger), None)
    if path is None:
        return
    boards = {name: host for name, host in sketch.hosts.items() if isinstance(host, BoardHost)}
    virtual = [name for name, time in where_known(boards, lambda _, board: board.time) if time == "virtual"]
    if virtual:
        what = f"{virtual[0]} is in virtual time, which does not wait for requests to keep events"
        yield Mistake(path, what, "trace: true of its listener; or no trigger")
