"""cyclictest's histograms: what -h, -H and -q print, and its --json file.

rt-tests 2.4, src/cyclictest/cyclictest.c (print_hist, print_stat, write_stats).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from latlab.analysis.bins import Tally
from latlab.imports.base import (
    COLOURS,
    INT64,
    JSON_BYTES,
    Figures,
    Format,
    Given,
    ReadFiles,
    cut_short,
    from_each,
    lines_of,
    not_its_total,
    not_what_it_says,
    nothing_in,
    signed,
    too_large,
    unknown_version,
)
from latlab.model.errors import UsageError
from latlab.model.part import Document
from latlab.model.reasons import Reason, reason_of
from latlab.model.units import MICROSECOND_NS, TIMES
from latlab.recordings.cell import LeftOut

LATENCY: Final = (
    "no packets: wake-up latency of a thread, from the instant its timer was set for until it ran; a stall of several "
    "periods counts once, because cyclictest skips the missed periods"
)
FILE_VERSION: Final = 1
_TEXT_VERSION: Final = "version not in the file"
_BETWEEN: Final = ("wake_due", "wake")
_MOST_THREADS: Final = 4096
_DIGITS_MOST: Final = 20
_TEXT_MEANS: Final = 2
"""Units by less than which the mean may be too low: its values were cut to whole units, and then the mean too."""

_ROW: Final = re.compile(r"^(\d{6,15})((?:[ \t]+\d{1,15})+)[ \t]*$")
_SUMMED: Final = re.compile(r"^# ((?:Min|Avg|Max) Latencies|Histogram Overflows|Total):((?: +\d+)*)\s*$")
_THREAD: Final = re.compile(
    r"^T:\s*(\d+) \(\s*(\d+)\) P:\s*(\d+) I:(\d+) C:\s*(\d+) Min:\s*(-?\d+) Act:\s*-?\d+ "
    r"Avg:\s*(-?\d+) Max:\s*(-?\d+)"
)

_VERBOSE: Final = re.compile(r"^ *\d{1,4}: *\d{1,12}: *-?\d{1,12}\s*$")
"""What -v prints of each cycle: thread, cycle, value."""
_VERBOSE_LEAST: Final = 3
_BEGINS: Final = "# /dev/cpu_dma_latency set to"
_LIVE: Final = re.compile(r"^(?:\x1b\[\d+A)?policy: ")
"""What stands before each table that is printed again and again, without -q."""
_FIRST_TABLE_US: Final = 1_000_000
"""Within that time from its start it prints its first table, without -q."""
_MISSED_SHARE: Final = 0.01
_UNLIKELY_US: Final = 1_000
_IMPOSSIBLE_NS: Final = 100
"""A mean wake-up that no machine reaches, and one that no machine is as slow as, however short the interval."""
_LARGEST: Final = INT64 // 4_000
_SLACK: Final = 4
"""cyclictest writes its JSON while threads may still run: cycles are counted some instants after their values."""

_JSON_VERSION: Final = re.compile(rb'"rt_test_version:?"\s*:')
_JSON_COMMAND: Final = re.compile(rb'"cmdline:?"\s*:\s*"(?:[^"\s]*/)?cyclictest(?=["\s])')
"""rt-tests writes some keys with a colon in them (write_stats in 2.4); its command may be called by path."""


def recognises_text(head: bytes, path: Path) -> float:
    """Sure of a histogram's beginning, or of a line of a thread; likely of nothing but what -v prints."""
    text = head.decode("utf-8", "replace")
    if re.search(r"^# Histogram\s*$", text, re.MULTILINE) and re.search(r"^\d{6} \d{6}", text, re.MULTILINE):
        return 1.0
    if re.search(r"^T:\s*\d+ \(\s*\d+\) P:", text, re.MULTILINE):
        return 0.9
    lines = [line for line in text.splitlines() if line.strip()]
    verbose = sum(_VERBOSE.match(line) is not None for line in lines)
    return 0.6 if verbose >= _VERBOSE_LEAST and verbose >= len(lines) / 2 else 0.0


def recognises_json(head: bytes, path: Path) -> float:
    """Sure where rt-tests' version and cyclictest's command line stand at the beginning."""
    return 1.0 if _JSON_VERSION.search(head) and _JSON_COMMAND.search(head) else 0.0


@dataclass(frozen=True)
class _Thread:
    """A line of a thread: cycles so far, and their figures in cyclictest's unit. interval_us: µs with -N, too."""

    number: int
    pid: int
    priority: int
    interval_us: int
    cycles: int
    min: int
    mean: int
    max: int

    @property
    def took_s(self) -> float:
        """How long its cycles took, if it missed no period."""
        return self.cycles * self.interval_us / 1e6

    def continues(self, before: _Thread, live: bool) -> bool:
        """Whether this is a later line of the same run. live: a heading as without -q stands between the two.

        Figures count from the start: cycles and the maximum only grow, the minimum only falls. A line that stands there
        before it has run is of no process yet.
        """
        if before.cycles == 0:
            return live or self.pid == before.pid
        grown = self.cycles >= before.cycles and self.min <= before.min and (self.max >= before.max or self.max < 0)
        alike = (self.pid, self.interval_us, self.priority) == (before.pid, before.interval_us, before.priority)
        return grown and alike and (live or self == before or before.cycles * before.interval_us < _FIRST_TABLE_US)


def _thread_of(line: str) -> _Thread | None:
    match = _THREAD.match(line)
    if match is None or any(len(number) > 18 for number in match.groups()):
        return None
    return _Thread(*map(int, match.groups()))


def runs_of_text(lines: Sequence[str]) -> list[list[int]]:
    """The lines of each run: one begins with a histogram after another's, or with a thread's line that continues with
    nothing that stands before it.
    """
    begins: list[int] = []
    threads: dict[int, tuple[_Thread, int]] = {}
    rows = totals = False
    headings = 0  # so many were there: a table that is printed again has one before it
    after = 0  # the line that follows the last one with a figure: comments from there on are the next run's
    for place, raw in enumerate(lines):
        line = COLOURS.sub("", raw)
        thread, row, total = _thread_of(line), _ROW.match(line), _SUMMED.match(line)
        title = line.startswith("# Histogram") and not line.startswith("# Histogram Overflow")
        headings += bool(_LIVE.match(raw))
        if thread:
            before, seen = threads.get(thread.number, (None, 0))
            begun = totals or (before is not None and not thread.continues(before, headings > seen))
        elif row or title:
            begun = totals
        else:
            begun = line.startswith(_BEGINS) and bool(rows or totals or threads)
        if begun:
            begins.append(next(at for at in range(after, place + 1) if lines[at].strip()))
            threads, rows, totals = {}, False, False
        if thread:
            threads[thread.number] = thread, headings
        rows, totals = rows or bool(row), totals or bool(total)
        if thread or row or total or line.startswith(("# Thread", "# Histogram")):
            after = place + 1
    return from_each(begins, len(lines))


def read_text(paths: Sequence[Path], given: Given) -> ReadFiles:
    """One stream a thread, or one of all threads where their number differs from the figures'."""
    (path,) = paths
    rows: list[list[int]] = []
    summed: dict[str, list[int]] = {}
    threads: dict[int, _Thread] = {}
    odd = verbose = 0
    for line in lines_of(path):
        if match := _ROW.match(line):
            rows.append([int(match[1]), *map(int, match[2].split())])
        elif match := _SUMMED.match(line):
            summed[match[1]] = [_as_printed(number) for number in match[2].split()]
        elif thread := _thread_of(line):
            threads[thread.number] = thread  # without -q it is printed again and again: the last one counts
        elif _VERBOSE.match(line):
            verbose += 1
        elif line.strip() and not line.startswith(("#", "policy:", "WARN")):
            odd += 1
    unit: Literal["ns", "us"] = given.unit or "us"
    notes = () if given.unit else ("its text has no unit: assumed to be microseconds, as without -N (else --unit ns)",)
    left_out = [LeftOut("lines", odd, "not cyclictest's")] if odd else []
    left_out += [LeftOut("lines", verbose, "single cycles, as -v prints them")] if verbose else []
    ran = [one for one in threads.values() if one.cycles > 0]
    if rows:
        figures, problems = _of_histogram(path, rows, summed, TIMES[unit])
        notes = (*notes, *_skipped([one.n or 0 for one in figures]))
    elif threads and (ran or not verbose):
        figures, problems = [_of_line(thread, TIMES[unit]) for thread in threads.values()], []
        notes = (*notes, *_missed_periods(ran))
    elif verbose:
        raise nothing_in(path, "sum of what -v printed", "run cyclictest with -q instead of -v, and -h for percentiles")
    else:
        raise nothing_in(path, "histogram and no line of a thread", "run cyclictest with -q, and -h for percentiles")
    figures, idle = _that_ran(path, figures)
    left_out += idle
    figures, early = _without_wrapped(path, figures)
    problems += early
    problems += _unit_problems(path, figures, {one.number: one for one in ran}, unit, told=given.unit is not None)
    return ReadFiles(
        "cyclictest",
        _TEXT_VERSION,
        LATENCY,
        figures=tuple(figures),
        notes=notes,
        left_out=tuple(left_out),
        problems=tuple(problems),
    )


def _of_histogram(
    path: Path, rows: list[list[int]], summed: dict[str, list[int]], ns: int
) -> tuple[list[Figures], list[Reason]]:
    threads = len(rows[0]) - 1
    whole = [row for row in rows if len(row) == threads + 1]
    table = np.array(whole, np.int64)
    # With -H a last column sums all threads: it has no separate line except those of the figures.
    columns = len(summed.get("Min Latencies", ())) or threads
    overflows = summed.get("Histogram Overflows", [])
    problems = []
    if "Max Latencies" not in summed or len(overflows) < columns:
        problems.append(cut_short(path.name, f"{len(whole)} bins, without the totals that follow them"))
    # It prints its bins ascending, each once.
    ordered = bool((np.diff(table[:, 0]) > 0).all()) and len(whole) == len(rows)
    figures = []
    for thread in range(min(columns, threads, _MOST_THREADS)):
        above = max(0, overflows[thread]) if thread < len(overflows) else 0
        least, mean, most = (_nth(summed.get(f"{what} Latencies"), thread, ns) for what in ("Min", "Avg", "Max"))
        held, printed = int(table[:, thread + 1].sum()), _nth(summed.get("Total"), thread, 1)
        if not ordered or printed not in (None, held):
            count = held if printed is None else printed
            problems.append(not_its_total(f"{path.name}, thread {thread}", "# Total", count, held))
            damaged = _thread_figures(thread, _TEXT_MEANS * ns, None, least, mean, most)
            figures.append(replace(damaged, n=None if printed is None else printed + above))
            continue
        tally = Tally(table[:, 0] * ns, (table[:, 0] + 1) * ns, table[:, thread + 1], above=above)
        figures.append(_thread_figures(thread, _TEXT_MEANS * ns, tally, least, mean, most))
    return figures, problems


def _that_ran(path: Path, figures: Sequence[Figures]) -> tuple[list[Figures], list[LeftOut]]:
    """Those of threads that completed a cycle. Of others it prints what it began with: minimum 1 s, maximum 0."""
    ran = [one for one in figures if one.n != 0]
    if not ran:
        raise nothing_in(path, "thread that completed a cycle", "run cyclictest longer, until it ends")
    idle = len(figures) - len(ran)
    return ran, [LeftOut("threads", idle, "without a completed cycle")] if idle else []


def _as_printed(number: str) -> int:
    """One of the sums' numbers, which are printed unsigned; what fits no 64 bits is none, and counts as below 0."""
    value = int(number) if len(number) <= _DIGITS_MOST else -1
    return signed(value) if value < 2**64 else -1


def _without_wrapped(path: Path, figures: Sequence[Figures]) -> tuple[list[Figures], list[Reason]]:
    """The figures without those that wrapped, and what is said of threads that were awake before their time.

    Such a wake-up is below 0. cyclictest takes it as unsigned, so that it is larger than all others: it becomes the
    maximum, spoils the mean, and counts as beyond the histogram (timerthread in cyclictest.c).
    """
    found, problems = list[Figures](), list[Reason]()
    for one in figures:
        told = [value for value in (one.min, one.max) if value is not None and value < 0]
        if told:
            wrapped = one.max is not None and one.max < 0
            one = replace(one, mean=None if wrapped else one.mean, max=None if wrapped else one.max)
            problems.append(
                reason_of(
                    "timestamps-possible",
                    f"{path.name}, {one.stream}",
                    "wake-ups after the instant that the timer was set for",
                    f"{min(told)} ns" + (": the largest value and the mean are not known" if wrapped else ""),
                    case="woke-early",
                )
            )
        found.append(one)
    return found, problems


def _of_line(thread: _Thread, ns: int) -> Figures:
    figures = (thread.min * ns, thread.mean * ns, thread.max * ns)
    found = _thread_figures(thread.number, _TEXT_MEANS * ns, None, *figures)
    told = f"thread {thread.number} · priority {thread.priority} · every {thread.interval_us} µs"
    return replace(found, n=thread.cycles, described=told)


def _missed_periods(threads: Sequence[_Thread]) -> Iterator[str]:
    """Of each thread that made fewer cycles than the longest-running one's time has room for, how many it missed.

    Without -S or -d 0 each thread's interval is 500 µs longer than the last one's: fewer cycles alone say nothing.
    """
    took_s = max((thread.took_s for thread in threads), default=0.0)
    for thread in threads:
        if thread.interval_us and thread.took_s < (1 - _MISSED_SHARE) * took_s:
            due = round(took_s * 1e6 / thread.interval_us)
            yield (
                f"thread {thread.number} made {thread.cycles} of the {due} cycles of {thread.interval_us} µs that "
                f"{took_s:.1f} s have: it missed {due - thread.cycles} periods "
                f"({100 * (due - thread.cycles) / due:.1f} %), which are not counted, unless it started that much later"
            )


def _unit_problems(
    path: Path, figures: Sequence[Figures], threads: Mapping[int, _Thread], unit: Literal["ns", "us"], *, told: bool
) -> Iterator[Reason]:
    """Figures that cannot be, or are unlikely, in the unit that they are taken to have.

    A thread whose every wake-up is later than its interval would miss a period each time.
    """
    for number, one in enumerate(figures):
        thread = threads.get(int(one.stream.rpartition("-")[2]) if threads else number)
        if unit == "ns" and one.mean is not None and 0 < one.mean < _IMPOSSIBLE_NS:
            yield reason_of(
                "unit-possible",
                f"{path.name}, {one.stream}",
                f"a mean of {_IMPOSSIBLE_NS} ns or more: no machine wakes a thread faster",
                f"{one.mean:.0f} ns",
                "leave out --unit ns",
            )
        if unit == "ns" or told or one.min is None:
            continue
        remedy = "import it with --unit ns if cyclictest ran with -N, with --unit us if not"
        if thread and thread.interval_us and one.min >= thread.interval_us * MICROSECOND_NS:
            yield reason_of(
                "unit-possible",
                f"{path.name}, {one.stream}",
                f"a shortest wake-up within the interval of {thread.interval_us} µs",
                f"{one.min // MICROSECOND_NS} µs in each of {thread.cycles} cycles, each of which would have missed a "
                "period",
                remedy,
                case="us",
            )
        elif not thread and one.min >= _UNLIKELY_US * MICROSECOND_NS:
            yield reason_of(
                "unit-possible",
                f"{path.name}, {one.stream}",
                f"a shortest wake-up below {_UNLIKELY_US} µs",
                f"{one.min // MICROSECOND_NS} µs",
                remedy,
                case="us-perhaps",
            )


def _nth(values: list[int] | None, place: int, ns: int) -> int | None:
    return values[place] * ns if values and place < len(values) and abs(values[place]) < _LARGEST else None


def _thread_figures(
    number: int, resolution_ns: int, tally: Tally | None, least: int | None, mean: float | None, most: int | None
) -> Figures:
    name = f"thread-{number}"
    return Figures(
        stream=name,
        metric="wakeup",
        kept="summary" if tally is None else "histogram",
        between=_BETWEEN,
        resolution_ns=resolution_ns,
        n=None if tally is None else tally.n,
        min=least,
        mean=mean,
        max=most,
        tally=tally,
        talker=name,
        listener=name,
        described=f"thread {number} · wake-ups, no packets",
    )


def _skipped(cycles: Sequence[int]) -> tuple[str, ...]:
    """Threads of one interval, as with a histogram, make as many cycles; one that made far fewer skipped periods."""
    if len(cycles) < 2 or min(cycles) >= (1 - _MISSED_SHARE) * max(cycles):
        return ()
    return (f"a thread made {min(cycles)} cycles while another made {max(cycles)}: missed periods are not counted",)


def read_json(paths: Sequence[Path], given: Given) -> ReadFiles:
    """One stream a thread, with its histogram where there is one."""
    (path,) = paths
    document = _json(path)
    version = document.get("file_version")
    if version != FILE_VERSION:
        raise unknown_version(path, f"cyclictest's JSON, file version {version!r}", f"file version {FILE_VERSION}")
    threads = document.get("thread")
    if not isinstance(threads, dict) or not threads:
        raise nothing_in(path, "thread", "run cyclictest to its end: it writes the file there")
    ns = 1 if document.get("resolution_in_ns") else MICROSECOND_NS
    figures, problems, odd = list[Figures](), list[Reason](), 0
    for name, thread in list(threads.items())[:_MOST_THREADS]:
        found = _json_thread(str(name), thread, ns)
        odd += found is None
        if found and (damage := _damage(path, found)):
            problems.append(damage)
            found = replace(found, tally=None, kept="summary")
        figures += [found] if found else []
    if not figures:
        raise not_what_it_says(path, "no thread in it has cycles, min, avg and max")
    left_out = [LeftOut("threads", odd, "without cycles, min, avg and max")] if odd else []
    figures, idle = _that_ran(path, figures)
    figures, early = _without_wrapped(path, figures)
    problems += early
    return ReadFiles(
        "cyclictest",
        f"rt-tests {_told(document, 'rt_test_version') or 'unknown'}",
        LATENCY,
        figures=tuple(figures),
        notes=_skipped([one.n or 0 for one in figures]) if _of_one_interval(document, figures) else (),
        left_out=(*left_out, *idle),
        problems=tuple(problems),
        facts={"command": _told(document, "cmdline"), "system": document.get("sysinfo")},
    )


def _of_one_interval(document: Document, figures: Sequence[Figures]) -> bool:
    """Whether its threads have one interval: with a histogram, -S or -d 0 (main in cyclictest.c)."""
    command = f" {_told(document, 'cmdline')} "
    return any(one.tally for one in figures) or bool(
        re.search(r" (?:-[A-Za-z]*S|--smp|--distance[= ]0|-d ?0)[ \d]", command)
    )


def _damage(path: Path, figures: Figures) -> Reason | None:
    """What is said of bins that hold more than all cycles, or leave some out where no value is beyond them."""
    tally, cycles = figures.tally, figures.n or 0
    if tally is None or (abs(tally.n - cycles) <= _SLACK and not tally.above):
        return None
    held = tally.n - tally.above
    beyond = figures.max is not None and figures.max > int(tally.from_ns[tally.count > 0].max(initial=-1))
    if held <= cycles + _SLACK and (beyond or tally.above <= _SLACK):
        return None
    return not_its_total(f"{path.name}, {figures.stream}", "cycles", cycles, held)


def runs_of_json(lines: Sequence[str]) -> list[list[int]]:
    """The lines of each document that was appended to the file; all are one's where any of them cannot be read."""
    decoder, text, begins = json.JSONDecoder(), "\n".join(lines), list[int]()
    place = len(text) - len(text.lstrip())
    try:
        while place < len(text):
            begins.append(text.count("\n", 0, place))
            _, place = decoder.raw_decode(text, place)
            place += len(text[place:]) - len(text[place:].lstrip())
    except (ValueError, RecursionError):
        return [list(range(len(lines)))]
    return from_each(begins, len(lines))


def _told(document: Document, key: str) -> Any:
    """What stands there as `key`, or as the same with a colon in it; None: neither does."""
    return document.get(f"{key}:", document.get(key))


def _json(path: Path) -> Document:
    if path.stat().st_size > JSON_BYTES:
        raise too_large(path, JSON_BYTES)
    data = path.read_bytes()
    if not data.rstrip().endswith(b"}"):
        remedy = "copy it again, complete; cyclictest writes it when it ends"
        raise UsageError("cut short: its JSON has no end", where=str(path), remedy=remedy)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise not_what_it_says(path, f"its JSON cannot be read: {str(error) or 'nested too deeply'}") from error
    if not isinstance(document, dict):
        raise not_what_it_says(path, "its JSON is not an object")
    return document


def _json_thread(name: str, thread: Any, ns: int) -> Figures | None:
    """The thread's figures; None where it has none. Its cycles count those beyond the histogram, too."""
    try:
        cycles, least, most = _number(thread["cycles"]), *(_number(thread[key], -_LARGEST) for key in ("min", "max"))
        mean = float(thread["avg"]) * ns
        bins = sorted((_number(low), _number(count)) for low, count in (thread.get("histogram") or {}).items())
        number = int(name)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None
    tally = None
    if bins:
        low, count = (np.array(column, np.int64) for column in zip(*bins, strict=True))
        tally = Tally(low * ns, (low + 1) * ns, count, above=max(0, cycles - int(count.sum())))
    found = _thread_figures(number, ns, tally, least * ns, mean, most * ns)
    cpu = thread.get("cpu")
    return replace(found, n=cycles, described=f"thread {number} on CPU {cpu} · wake-ups, no packets")


def _number(value: Any, least: int = 0) -> int:
    """An integer of `least` or more that stays one in nanoseconds; ValueError: it is none."""
    number = int(value)
    if not least <= number < _LARGEST:
        raise ValueError(number)
    return number


TEXT: Final = Format(
    "cyclictest",
    "cyclictest's output: a histogram (-h, -H) or a line a thread",
    1,
    recognises_text,
    read_text,
    runs_of_text,
    r"T:\s*\d+ \(\s*\d+\) P:|# Histogram\b",
)
JSON: Final = Format(
    "cyclictest-json", "cyclictest's --json file", 1, recognises_json, read_json, runs_of_json, most_bytes=JSON_BYTES
)
