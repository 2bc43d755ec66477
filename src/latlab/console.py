"""A run as it happens, on a terminal (one live line) or without one (plain lines)."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

import numpy as np
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from latlab.analysis.words import counted, plural
from latlab.model.part import Failure
from latlab.model.units import MICROSECOND_NS, SECOND_NS, in_us
from latlab.recordings.cell import ClockEdge, RecordedCell, Totals
from latlab.recordings.clock_offset import offset_between
from latlab.report.columns import print_sentence
from latlab.report.text import bound, microseconds
from latlab.run import events
from latlab.run.events import ClockBound, Followed, Latencies, Packets, Seen
from latlab.testbed.apply import AGAIN_S, FIRST_S

# A cell while it is measured, figures of the last second: what its agents say once a second, and how it is written.


UNKNOWN = "–"
RAW = "raw clocks"
SENDING = ("talk", "ping")
"""Who counts what was sent; the others count what came."""
COLUMNS = ("last second", "packets/s", "p50 µs", "p99 µs", "max µs", "lost so far", "clock ± µs", "steal %")


@dataclass(frozen=True)
class LiveRow:
    """What is known of a stream, of round trips or of a timer. None: it is not known.

    per_s: packets or instants. latencies: by one clock where the offset is known, which is off by clock_ns at most;
    else by both clocks as they are. lost: so far. steal: for what share of the time the hypervisor kept CPUs of its
    hosts waiting, all CPUs of a host together, the larger one of two hosts.
    """

    name: str
    per_s: float | None
    latencies: Latencies | None
    lost: int | None
    clock_ns: int | None
    steal: float | None

    def figures(self) -> tuple[str, ...]:
        """The row of the table, in the order of its columns."""
        late = self.latencies
        latencies = [microseconds(ns) for ns in (late.p50_ns, late.p99_ns, late.max_ns)] if late else [UNKNOWN] * 3
        return (
            self.name,
            _or_unknown(self.per_s, ".0f"),
            *latencies,
            _or_unknown(self.lost, "d"),
            RAW if self.clock_ns is None else bound(self.clock_ns),
            _or_unknown(None if self.steal is None else 100 * self.steal, ".0f"),
        )

    def line(self) -> str:
        """As "control latency: 1000/s, p50 12.3 µs, p99 15.0 µs, max 31.2 µs, lost 0, clock ± 0.1 µs, steal 0 %"."""
        name, per_s, p50, p99, most, lost, clock, steal = self.figures()
        clock = clock if clock == RAW else f"clock ± {clock} µs"
        late = f"p50 {p50} µs, p99 {p99} µs, max {most} µs"
        return f"{name}: {per_s}/s, {late}, lost {lost}, {clock}, steal {steal} %"


class LiveCell:
    """What is known of a cell by now, from its events."""

    def __init__(self, followed: Sequence[Followed]) -> None:
        self.followed = followed
        self._sent: dict[int, list[int]] = {}
        """By the number of who sends: what the two latest reports counted, the latest last."""
        self._heard: dict[int, tuple[Packets, float | None]] = {}
        """By the number of who receives: the latest report, and the time since the one before, s."""
        self._steal: dict[str, float] = {}
        self._before: dict[tuple[str, str, str | None], Packets] = {}
        self._clocks: dict[tuple[str, str], ClockBound] = {}

    def take(self, event: Packets | ClockBound) -> list[LiveRow]:
        """The rows of which the event says more."""
        if isinstance(event, ClockBound):
            self._clocks[event.from_, event.to] = event
            return []
        who = event.host, event.verb, event.probe
        before = self._before.get(who)
        self._before[who] = event
        seconds = (event.tai_ns - before.tai_ns) / SECOND_NS if before else None
        if seconds and before and event.steal_ns is not None and before.steal_ns is not None:
            self._steal[event.host] = (event.steal_ns - before.steal_ns) / SECOND_NS / seconds
        if event.verb in SENDING:
            for number, count in event.streams.items():
                self._sent[number] = [*self._sent.get(number, [])[-1:], count]
        for number in event.seen:
            self._heard[number] = event, seconds
        return [self._row(one) for one in self.followed if one.stream in event.seen]

    def rows(self) -> list[LiveRow]:
        """All of them, in the order in which they are followed."""
        return [self._row(one) for one in self.followed]

    def _row(self, one: Followed) -> LiveRow:
        known, clock_ns = self._on_one_clock(one)
        steals = [self._steal[host] for host in (one.sender, one.receiver) if host in self._steal]
        name, steal = f"{one.name} {one.what}", max(steals, default=None)
        if one.stream not in self._heard:
            return LiveRow(name, None, None, None, clock_ns, steal)
        event, seconds = self._heard[one.stream]
        seen, late = event.seen[one.stream], event.seen[one.stream].latencies
        per_s = (late.n if late else 0) / seconds if seconds else None
        moved = late and Latencies(late.n, late.p50_ns - known, late.p99_ns - known, late.max_ns - known)
        return LiveRow(name, per_s, moved, self._lost(one, seen, event.streams[one.stream]), clock_ns, steal)

    def _lost(self, one: Followed, seen: Seen, received: int) -> int | None:
        """Packets with a later one before them, or that had been sent a report before the latest and have not come."""
        if one.sent is None:
            return None
        reports = self._sent.get(one.sent, [])
        overdue = reports[0] - received if len(reports) > 1 else 0
        return max(seen.missing, overdue)

    def _on_one_clock(self, one: Followed) -> tuple[int, int | None]:
        """How far the receiver's clock is ahead of the sender's, ns, and how far off that may be (None: not known)."""
        clocks = [
            ClockEdge(from_=known.from_, to=known.to, lower_ns=known.lower_ns, upper_ns=known.upper_ns)
            for known in self._clocks.values()
        ]
        offset = offset_between(clocks, one.receiver, one.sender, np.zeros(1, np.int64))
        if offset is None or not offset.known[0]:
            return 0, None
        return int(offset.estimate_ns[0]), int(offset.half_ns[0])


def live_table(rows: Iterable[LiveRow]) -> Table:
    """The rows under their titles."""
    table = Table(box=None, pad_edge=False)
    for number, title in enumerate(COLUMNS):
        table.add_column(title, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row.figures())
    return table


def _or_unknown(value: float | None, form: str) -> str:
    return UNKNOWN if value is None else format(value, form)


# A run as it happens, on a terminal (one live line) or without one (plain lines).


PLAIN_COLUMNS = 100
"""What is not a terminal has; in a log sentences are longer, tables are not."""
LIVE_REDRAWN_PER_S = 2
"""No more often, because drawing takes a CPU that packets may wait for; figures change once a second."""
_COUNTED = {"talk": "sent", "listen": "received", "ping": "asked", "timer": "instants"}


class PatientConsole(Console):
    """A console whose reader may go away, as `head` does: what is left to be done is done anyway."""

    def on_broken_pipe(self) -> None:
        """Discard what is still printed."""
        self.quiet = True
        write_to_nobody(self.file)


def write_to_nobody(stream: Any) -> None:
    """Discard what is still in the stream, and all that comes."""
    nobody = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nobody, stream.fileno())
    os.close(nobody)


def make_console(*, stderr: bool = False) -> Console:
    """The console of standard output, or of standard error.

    A log is as wide as COLUMNS says, or PLAIN_COLUMNS: rich would take 80.
    """
    # rich itself, where NO_COLOR is set, leaves bold and dim in.
    colours: Literal["auto"] | None = None if text_only() else "auto"
    console = PatientConsole(stderr=stderr, color_system=colours)
    if console.is_terminal or os.environ.get("COLUMNS", "").isdigit():
        return console
    return PatientConsole(stderr=stderr, color_system=colours, width=PLAIN_COLUMNS)


def text_only() -> bool:
    """Return whether no escape code may be printed: NO_COLOR is set (no-color.org), or the terminal knows none."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") in ("dumb", "unknown")


@contextmanager
def told_while(what: str, console: Console) -> Iterator[None]:
    """Print what is being done, with its duration so far, if it takes long: for work in this process."""
    begun, over = time.monotonic(), threading.Event()

    def tell() -> None:
        wait_s = FIRST_S
        while not over.wait(wait_s):
            print_sentence(f"{what}, {time.monotonic() - begun:.0f} s so far", console)
            wait_s = AGAIN_S

    telling = threading.Thread(target=tell, daemon=True)
    telling.start()
    try:
        yield
    finally:
        over.set()
        telling.join()


@dataclass
class _ShownCell:
    """A cell under way: its title, its line, what its agents have counted, and its timers' extremes."""

    title: str
    task: TaskID
    phase: str = ""
    counted: dict[tuple[str, str, str | None], int] = field(default_factory=dict)
    extremes: dict[str, tuple[int, int]] = field(default_factory=dict)
    live: LiveCell | None = None
    table: RenderableType | None = None

    def counts(self) -> str:
        """As "995 sent, 990 received"."""
        counts = {verb: 0 for _, verb, _ in self.counted}
        for (_, verb, _), count in self.counted.items():
            counts[verb] += count
        return ", ".join(f"{counts[verb]} {word}" for verb, word in _COUNTED.items() if verb in counts)


class _Progress(Progress):
    """Lines of what is under way, and below them what `more` says."""

    def __init__(self, more: Callable[[], Iterable[RenderableType]], *columns: ProgressColumn, **options: Any) -> None:
        self._more = more
        super().__init__(*columns, **options)

    def get_renderables(self) -> Iterable[RenderableType]:
        """What is drawn."""
        yield from super().get_renderables()
        yield from self._more()


class RunConsole:
    """Shows a run's events on a console; use it as a context.

    verbose: each cell's phases, too. live: once a second figures of each stream, as a table that goes away again, or
    where there is no terminal as lines.
    """

    def __init__(self, console: Console, *, verbose: bool = False, live: bool = False) -> None:
        self._runs = 0
        self._cells: dict[int, _ShownCell] = {}
        """Those under way, by their order."""
        self._console = console
        self._verbose = verbose
        self._live = live
        self._redraws = console.is_terminal and not text_only()
        self._progress = _Progress(
            self._tables,
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[packets]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not self._redraws,
            refresh_per_second=LIVE_REDRAWN_PER_S if live else 10,
        )

    def __enter__(self) -> RunConsole:
        self._progress.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._progress.stop()

    def show(self, event: events.Event) -> None:
        """Print the event on the console."""
        match event:
            case events.Cleaned():
                self._line("An earlier run was interrupted; undoing it now: " + "; ".join(event.undone))
            case events.RunStarted():
                self._runs = event.runs
                order = f", in an order shuffled with seed {event.seed}" if event.runs > 1 else ""
                self._line(f"{event.folder}: {runs_of_cells(event.runs, event.cells)}{order}")
                for warning in event.warnings:
                    self._line(f"warning: {warning}")
            case events.CellStarted():
                repeat = f", repeat {event.repeat} of {event.repeats}" if event.repeats > 1 else ""
                title = f"[{event.order}/{self._runs}] {event.slug}{repeat}"
                self._line(f"{title}, {_seconds(event.duration_ns)} s")
                task = self._progress.add_task(title, total=event.duration_ns / SECOND_NS, packets="", start=False)
                self._cells[event.order] = _ShownCell(
                    title, task, live=LiveCell(event.followed) if self._live else None
                )
            case events.Phase() if cell := self._cells.get(event.order):
                self._phase(cell, event.name)
            case events.Waiting() if cell := self._cells.get(event.order):
                self._waiting(cell, event)
            case events.Packets() if cell := self._cells.get(event.order):
                self._packets(cell, event)
            case events.ClockBound() if (cell := self._cells.get(event.order)) and cell.live:
                cell.live.take(event)
            case events.TimerWindowEnded():
                self._line(self._window(event))
            case events.CellEnded() if cell := self._cells.pop(event.order, None):
                self._progress.remove_task(cell.task)
                for line in timer_lines(event.cell):
                    self._line(line)
                self._line(f"{cell.title}: {cell_line(event.cell)}")

    def _phase(self, cell: _ShownCell, name: str) -> None:
        cell.phase = name
        if self._verbose:
            self._line(f"{cell.title}: {name}")
        self._progress.update(cell.task, description=f"{cell.title}: {name}")
        if name == "measuring":
            self._progress.start_task(cell.task)
            if cell.live and not cell.live.followed:
                self._line(f"{cell.title}: no live figures: no stream or probe of latlab")

    def _waiting(self, cell: _ShownCell, event: events.Waiting) -> None:
        """A log gets a line; on a terminal it stands in the cell's own until the next phase."""
        counts = f"; {said}" if (said := cell.counts()) else ""
        text = f"{cell.title}: {cell.phase}: {event.what}, {event.seconds:.0f} s so far{counts}"
        if self._redraws:
            self._progress.update(cell.task, description=text)
        else:
            self._line(text)

    def _window(self, event: events.TimerWindowEnded) -> str:
        """A timer's interval in a line, and the least and the largest since its start."""
        extremes = self._cells[event.order].extremes if event.order in self._cells else {}
        least, most = extremes.get(event.probe, (event.min_ns, event.max_ns))
        found = extremes[event.probe] = min(least, event.min_ns), max(most, event.max_ns)
        return f"{event.probe} on {window_line(event, *found)}"

    def _tables(self) -> list[RenderableType]:
        """What is shown live of cells that are being measured. The thread that draws asks for it."""
        shown = [(cell.title, cell.table) for cell in list(self._cells.values()) if cell.table]
        if len(shown) == 1:
            return [table for _, table in shown]
        return [part for title, table in shown for part in (Text(title), table)]

    def _packets(self, cell: _ShownCell, event: events.Packets) -> None:
        # What is reported before the start is of nothing.
        if cell.live and (news := cell.live.take(event)) and cell.phase == "measuring":
            if self._redraws:
                cell.table = live_table(cell.live.rows())
            for row in () if self._redraws else news:
                self._line(f"{cell.title}: {row.line()}")
        if event.verb not in _COUNTED:
            return
        cell.counted[event.host, event.verb, event.probe] = sum(event.streams.values())
        self._progress.update(cell.task, packets=cell.counts())
        task = next(task for task in self._progress.tasks if task.id == cell.task)
        self._progress.update(cell.task, completed=min(task.elapsed or 0.0, task.total or 0.0))

    def _line(self, text: str) -> None:
        print_sentence(text, self._console)


def runs_of_cells(runs: int, cells: int) -> str:
    """How much there is to do: `1 cell`, `12 runs of 6 cells`."""
    several = counted(cells, "cell")
    return several if runs == cells else f"{runs} runs of {several}"


def _seconds(ns: int) -> str:
    """The duration in seconds, as short as it can be written exactly."""
    return f"{Decimal(ns).scaleb(-9).normalize():f}"


def window_line(event: events.TimerWindowEnded, least_ns: int, most_ns: int) -> str:
    """As "vm1, 10 s, n 10000: mean 3.12 µs (1040 ticks), …, 3 above 30 µs (0.03 %); so far 2.51 to 38.12 µs"."""
    stretch = _seconds(event.to_tai_ns - event.from_tai_ns)
    so_far = f"so far {least_ns / MICROSECOND_NS:.2f} to {most_ns / MICROSECOND_NS:.2f} µs"
    return f"{event.host}, {stretch} s, n {event.n}: {_lateness(event, event.n, event.tick_ns)}; {so_far}"


def timer_lines(cell: RecordedCell) -> list[str]:
    """All instants of each timer of a cell, warm-up included: as "guest on vm1, in all, n 3000: mean 3.12 µs, …"."""
    return [
        f"{agent.probe} on {agent.host}, in all, n {done.events}: "
        + _lateness(done, done.events, agent.said.timer.tick_ns if agent.said.timer else None)
        for agent in cell.agents
        if agent.verb == "timer" and (done := agent.done) and done.events
    ]


def _lateness(figures: Totals | events.TimerWindowEnded, n: int, tick_ns: float | None) -> str:
    """How late n instants of a timer were, in µs and, where its counter is known, in ticks."""

    def figure(name: str) -> str:
        ns = getattr(figures, f"{name}_ns") or 0
        return f"{name} {ns / MICROSECOND_NS:.2f} µs" + (f" ({ns / tick_ns:.0f} ticks)" if tick_ns else "")

    above = figures.above or 0
    share = f"{above} above {in_us(figures.threshold_ns or 0)} ({100 * above / max(n, 1):.3g} %)"
    return ", ".join((*map(figure, ("mean", "stddev", "min", "max")), share, *_overdue(figures.overdue)))


def cell_line(cell: RecordedCell) -> str:
    """A cell's end in one line: what was sent and received, and what could not be set or kept; or why it failed."""
    if cell.status != "ok":
        reasons = cell.reason.problems or [cell.reason] if cell.reason else []
        return f"{cell.status}: {'; '.join(map(_reason, reasons))}"
    done = [(agent.verb, agent.done) for agent in cell.agents if agent.done]
    sent = sum(stream.sent or 0 for verb, totals in done if verb == "talk" for stream in totals.each)
    received = sum(stream.received or 0 for verb, totals in done if verb == "listen" for stream in totals.each)
    not_done = [step.title for step in cell.steps if not step.ok]
    not_kept = [again.title for again in cell.rechecks if not again.ok]
    asked = [totals for verb, totals in done if verb == "ping"]
    told = [f"{sent} sent, {received} received"] if any(verb in ("talk", "listen") for verb, _ in done) else []
    if asked:
        told.append(f"{sum(one.sent or 0 for one in asked)} asked, {sum(one.received or 0 for one in asked)} answered")
    waited = [totals for verb, totals in done if verb == "timer"]
    if waited:
        above = f"{sum(one.above or 0 for one in waited)} above the threshold"
        overdue = _overdue(sum(one.overdue for one in waited))
        told.append(", ".join((plural(sum(one.events for one in waited), "instant"), above, *overdue)))
    told += [f"measured by {one.probe}" for one in cell.probes if one.tool]
    told += [f"could not be set: {', '.join(not_done)}"] if not_done else []
    told += [f"changed at the end: {', '.join(not_kept)}"] if not_kept else []
    return "; ".join(told)


def _overdue(instants: int) -> tuple[str, ...]:
    """How many had passed when their turn came: of those a figure says how far behind the thread was, not the timer."""
    return (f"{instants} overdue",) if instants else ()


def _reason(reason: Failure) -> str:
    where = f"{reason.where}: " if reason.where else ""
    remedy = f" ({reason.remedy})" if reason.remedy else ""
    return f"{where}{reason.what}{remedy}"
