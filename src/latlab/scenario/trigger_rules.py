"""What a trigger must keep: packets that a listener judges, on a machine that it reaches in time."""

from __future__ import annotations

from collections.abc import Iterator

from latlab.scenario.findings import Finding
from latlab.scenario.hosts import BoardHost
from latlab.scenario.sketch import Sketch, where_known

_PATH = ("trigger",)


def trigger_has_streams(sketch: Sketch) -> Iterator[Finding]:
    """Where there is a trigger a listener judges packets, in some cell at least."""
    if sketch.top.trigger is None or sketch.names.get("streams", ("unknown",)):
        return
    yield Finding(_PATH, "there is no stream whose listener could apply the trigger", "a stream; or no trigger")


def trigger_is_in_real_time(sketch: Sketch) -> Iterator[Finding]:
    """The lab passes on what is to be kept in real time: a board in virtual time does not wait for it."""
    if sketch.top.trigger is None:
        return
    boards = {name: host for name, host in sketch.hosts.items() if isinstance(host, BoardHost)}
    virtual = [name for name, time in where_known(boards, lambda _, board: board.time) if time == "virtual"]
    if virtual:
        what = f"{virtual[0]} is in virtual time, which does not wait for requests to keep events"
        yield Finding(_PATH, what, "trace: true of its listener; or no trigger")
