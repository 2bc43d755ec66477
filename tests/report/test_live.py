"""A cell while it is measured: what its agents say once a second, as rows, as a table that goes away, and as lines."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from latlab.console import COLUMNS, RAW, LiveCell, LiveRow, RunConsole
from latlab.recordings.cell import RecordedCell
from latlab.run.events import (
    CellEnded,
    CellStarted,
    ClockBound,
    Event,
    Followed,
    Latencies,
    Packets,
    Phase,
    RunStarted,
    Seen,
)
from support.report.terminal import screen

S = 1_000_000_000
CONTROL = Followed("control", 1, 1, "sensor", "ecu")
RR = Followed("rr", 3, 2, "sensor", "sensor")
IRQ = Followed("irq", 4, None, "ecu", "ecu")
LATE = Latencies(1000, 12_340, 15_000, 31_250)
ENDED = RecordedCell(slug="all", repeat=1, status="ok", streams=[])


def talked(second: int, sent: int, steal_ns: int | None = None) -> Packets:
    return Packets("sensor", "talk", {1: sent}, tai_ns=second * S, steal_ns=steal_ns)


def heard(second: int, received: int, missing: int = 0, late: Latencies | None = LATE) -> Packets:
    """What the listener says, whose clock begins elsewhere."""
    return Packets("ecu", "listen", {1: received}, tai_ns=(second + 70) * S, seen={1: Seen(missing, late)})


def row(cell: LiveCell, *reports: Packets | ClockBound) -> LiveRow:
    for report in reports:
        cell.take(report)
    (found,) = cell.rows()
    return found


def test_a_rate_is_of_the_time_by_the_clock_of_who_receives() -> None:
    cell = LiveCell([CONTROL])
    assert row(cell).per_s is None
    assert row(cell, heard(1, 1000)).per_s is None
    half = replace(heard(1, 2000), tai_ns=heard(1, 0).tai_ns + S // 2)
    assert row(cell, half).per_s == 2000
    assert row(cell, replace(heard(2, 2000, late=None), tai_ns=heard(2, 0).tai_ns)).per_s == 0


def test_latencies_are_moved_onto_one_clock_where_the_offset_is_known() -> None:
    cell = LiveCell([CONTROL])
    assert (row(cell, heard(1, 1000)).latencies, row(cell).clock_ns) == (LATE, None)
    # The listener's clock is ahead, by way of a third host's.
    ahead = ClockBound("vm", "ecu", 4_900, 5_100), ClockBound("vm", "sensor", -1_010, -990)
    found = row(cell, *ahead)
    assert found.latencies == Latencies(1000, 6_340, 9_000, 25_250)
    assert found.clock_ns == 110
    later = row(cell, ClockBound("vm", "ecu", 5_900, 5_910))
    assert later.latencies and later.latencies.p50_ns == 12_340 - 6_905


def test_on_one_clock_nothing_is_moved_and_nothing_uncertain() -> None:
    asked = Packets("sensor", "ping", {2: 10, 3: 9}, "rr", tai_ns=S, seen={3: Seen(0, LATE)})
    found = row(LiveCell([RR]), asked)
    assert (found.name, found.latencies, found.clock_ns) == ("rr round trip", LATE, 0)
    assert row(LiveCell([CONTROL]), ClockBound("sensor", "ecu", 0, 0)).clock_ns == 0


def test_what_is_on_its_way_is_not_lost_and_what_was_sent_a_second_ago_and_has_not_come_is() -> None:
    cell = LiveCell([CONTROL])
    assert row(cell, talked(1, 1000), heard(1, 990)).lost == 0
    assert row(cell, talked(2, 2000), heard(2, 1995)).lost == 0
    assert row(cell, heard(3, 2900, missing=7)).lost == 7
    # Nothing comes any more: no gap reports it.
    assert row(cell, talked(3, 3000), heard(4, 2900, late=None), talked(4, 4000)).lost == 100
    assert row(cell, talked(5, 5000)).lost == 1100


def test_questions_that_nobody_answers_are_lost_and_instants_never() -> None:
    cell = LiveCell([RR])
    for second, asked in ((1, 100), (2, 200), (3, 300)):
        report = Packets("sensor", "ping", {2: asked, 3: 95}, "rr", tai_ns=second * S, seen={3: Seen(0, None)})
        cell.take(report)
    # Pong counts by the same numbers, what comes and what it answers.
    cell.take(Packets("ecu", "pong", {2: 95, 3: 95}, "rr", tai_ns=S))
    assert cell.rows()[0].lost == 105
    waited = Packets("ecu", "timer", {4: 1000}, "irq", tai_ns=S, seen={4: Seen(0, LATE)})
    assert (row(LiveCell([IRQ]), waited).lost, row(LiveCell([IRQ])).name) == (None, "irq lateness")


def test_steal_is_the_larger_of_both_hosts_in_the_time_of_their_own_clocks() -> None:
    cell = LiveCell([CONTROL])
    assert row(cell, talked(1, 0, steal_ns=5 * S)).steal is None
    assert row(cell, talked(3, 0, steal_ns=6 * S)).steal == 0.5
    first = replace(heard(1, 0), steal_ns=0)
    assert row(cell, first, replace(heard(2, 0), steal_ns=S * 3 // 4)).steal == 0.75


def of_first(*events: Packets | ClockBound) -> list[Event]:
    """The same events, as those of a run's first cell."""
    return [replace(event, order=1) for event in events]


def test_without_a_terminal_there_is_a_line_for_each_report_of_who_receives() -> None:
    file = io.StringIO()
    known = ClockBound("sensor", "ecu", -90, 90)
    reports = of_first(heard(1, 1000), known, talked(1, 1000, 0), talked(2, 2000, 0), heard(2, 2000))
    with RunConsole(Console(file=file, width=200), live=True) as shown:
        shown.show(RunStarted(Path("runs/x"), 1, 1, 1))
        shown.show(CellStarted(1, "all", 1, 1, 10 * S, (CONTROL,)))
        shown.show(replace(heard(0, 0, late=None), order=1))  # nothing has begun
        shown.show(Phase("measuring", 1))
        for event in reports:
            shown.show(event)
        shown.show(CellEnded(1, ENDED))
    assert file.getvalue().splitlines()[2:4] == [
        "[1/1] all: control latency: 1000/s, p50 12.3 µs, p99 15.0 µs, max 31.2 µs, lost 0, raw clocks, steal – %",
        "[1/1] all: control latency: 1000/s, p50 12.3 µs, p99 15.0 µs, max 31.2 µs, lost 0, clock ± 0.1 µs, steal 0 %",
    ]


def test_on_a_terminal_the_table_is_drawn_below_the_cell_and_nothing_of_it_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    file = io.StringIO()
    console = Console(file=file, width=120, height=30, force_terminal=True, color_system=None)
    with RunConsole(console, live=True) as shown:
        shown.show(RunStarted(Path("runs/x"), 1, 1, 1))
        shown.show(CellStarted(1, "all", 1, 1, 10 * S, (CONTROL,)))
        shown.show(Phase("measuring", 1))
        for event in of_first(heard(1, 1000), heard(2, 2000, missing=3)):
            shown.show(event)
        shown._progress.refresh()
        drawn = screen(file.getvalue())
        shown.show(CellEnded(1, ENDED))
    assert [re.sub(" {2,}", "  ", line) for line in drawn[-2:]] == [
        "  ".join(COLUMNS),
        f"control latency  1000  12.3  15.0  31.2  3  {RAW}  –",
    ]
    assert not any("packets/s" in line or "control latency" in line for line in screen(file.getvalue()))
    assert screen(file.getvalue())[0] == "runs/x: 1 cell"


def test_a_cell_without_anything_of_our_own_says_so_and_a_run_that_is_not_live_says_nothing() -> None:
    file = io.StringIO()
    with RunConsole(Console(file=file, width=200), live=True) as shown:
        shown.show(CellStarted(1, "all", 1, 1, 10 * S))
        shown.show(Phase("measuring", 1))
    assert "[1/0] all: no live figures: no stream or probe of latlab" in file.getvalue()
    file = io.StringIO()
    with RunConsole(Console(file=file, width=200)) as shown:
        shown.show(CellStarted(1, "all", 1, 1, 10 * S, (CONTROL,)))
        shown.show(replace(heard(1, 1000), order=1))
    assert file.getvalue() == "[1/0] all, 10 s\n"
