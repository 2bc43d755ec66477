"""rtla's histograms, `rtla timerlat hist` and `rtla osnoise hist`, and the tables of `rtla osnoise top` and `hwnoise`.

Linux 6.1 to 6.18, tools/tracing/rtla/src/timerlat_hist.c, osnoise_hist.c, osnoise_top.c. Nothing that rtla prints says
which version printed it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from latlab.analysis.bins import Tally
from latlab.imports.base import (
    COLOURS,
    Figures,
    Format,
    Given,
    ReadFiles,
    cut_short,
    from_each,
    lines_of,
    not_its_total,
    nothing_in,
)
from latlab.model.errors import UsageError
from latlab.model.reasons import Reason, reason_of
from latlab.model.units import MICROSECOND_NS, SECOND_NS
from latlab.recordings.cell import LeftOut

_TITLE: Final = re.compile(r"^# RTLA (timerlat|osnoise) histogram\s*$")
_UNIT: Final = re.compile(r"^# Time unit is (nanoseconds|microseconds) ")
_BIN: Final = re.compile(r"^(\d{1,9})\s*((?:\s+\d{1,10})+)\s*$")
_SUMMED: Final = re.compile(r"^(over|count|min|avg|max):((?:\s+(?:\d{1,20}(?:\.\d{1,3})?|-))*)\s*$")
_TOOK: Final = re.compile(r"^# Duration: {1,6}(\d{1,6}) (\d\d):(\d\d):(\d\d)\s*$")
_IMPOSSIBLE_NS: Final = 100
"""A mean wake-up that no machine reaches."""
_MISSED: Final = "events missed, results might not be accurate"
_COLUMN: Final = re.compile(r"^(IRQ|Thr|Usr|CPU)-(\d{1,5})$")
_TOP_TITLE: Final = re.compile(r"(Operating System|Hardware-related) Noise\b")
_DURATION: Final = re.compile(r"^duration: {1,4}(\d{1,6}) (\d\d):(\d\d):(\d\d) \|")
_TIMERLAT_TOP: Final = "Timer Latency"
_ALL_CPUS: Final = "all CPUs"
_TOP: Final = re.compile(r"^\s*(\d{1,5}) #(\d{1,9})\s+(\d{1,15})\s+(\d{1,15})\s+(\d+\.\d+)\s+(\d{1,15})\s+(\d{1,15})\s")

_CONTEXTS: Final[Mapping[str, tuple[str, tuple[str, str]]]] = {
    "IRQ": ("interrupt", ("expiry", "interrupt")),
    "Thr": ("wakeup", ("expiry", "wake")),
    "Usr": ("user_return", ("expiry", "user space")),
    "CPU": ("noise", ("", "time taken without interruption")),
}
"""{column: (metric, the two moments)}. All of timerlat's count from when the timer was to expire, and do not add up.
"""

_LATENCY: Final = {
    "timerlat": "no packets: from the instant a timer was to expire until its interrupt (IRQ), the thread it wakes "
    "(Thr) and the return to user space (Usr); each counts from the expiry, so the later ones include the earlier ones",
    "osnoise": "no packets: how long something else ran without interruption on the CPU of a thread that only runs",
}


def recognises(head: bytes, path: Path) -> float:
    """Sure of a histogram's heading, and of the heading of the table of noise."""
    text = head.decode("utf-8", "replace")
    if re.search(r"^# RTLA (timerlat|osnoise) histogram\s*$", text, re.MULTILINE):
        return 1.0
    if _TIMERLAT_TOP in text and re.search(r"^CPU +COUNT +\|", text, re.MULTILINE):
        return 0.9
    return 1.0 if _TOP_TITLE.search(text) and re.search(r"^ *CPU .* Max Single\b", text, re.MULTILINE) else 0.0


def runs(lines: Sequence[str]) -> list[list[int]]:
    """The lines of each run: one begins with each histogram's title, with a table behind one, and with a table whose
    time does not advance.
    """
    begins, title, last_s, cleared, kind = list[int](), 0, -1, False, ""
    for place, raw in enumerate(lines):
        line = COLOURS.sub("", raw)
        cleared |= "\x1bc" in raw or "\x1b[H" in raw
        if _TITLE.match(line):
            begins += [place] if kind else []
            kind = "histogram"
        elif _TOP_TITLE.search(line):
            if kind == "histogram":
                begins.append(place)
                last_s = -1
            title, kind = place, "table"
        elif match := _DURATION.match(line):
            days, hours, minutes, seconds = map(int, match.groups())
            at_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
            # Without -q the screen is cleared before each table; its last one may stand there twice.
            if at_s < last_s or (at_s == last_s and not cleared):
                begins.append(title)
            last_s, cleared = at_s, False
    return from_each(begins, len(lines))


def read(paths: Sequence[Path], given: Given) -> ReadFiles:
    """One stream a CPU. UsageError: neither a histogram's columns nor the table's rows are in it."""
    (path,) = paths
    lines = lines_of(path)
    tool = next((match[1] for line in lines if (match := _TITLE.match(line))), None)
    if tool is None:
        return _of_top(path, lines)
    unit = next((match[1] for line in lines if (match := _UNIT.match(line))), "microseconds")
    columns = next((found for line in lines if (found := _columns(line))), [])
    if not columns and tool == "osnoise" and any(re.match(r"^(over|count): *0 *$", line) for line in lines):
        return _of_no_noise(path, lines)
    if not columns:
        raise nothing_in(path, "CPU's column", "run rtla with its index and header (no --no-header, no --no-index)")
    return _of_histogram(path, lines, tool, columns, 1 if unit == "nanoseconds" else MICROSECOND_NS)


def _columns(line: str) -> list[tuple[str, int]]:
    """[(context, CPU)] of the heading of the bins; empty for another line."""
    words = line.split()
    if not words or words[0] != "Index":
        return []
    found = [_COLUMN.match(word) for word in words[1:]]
    return [(match[1], int(match[2])) for match in found if match] if all(found) else []


def _of_histogram(path: Path, lines: list[str], tool: str, columns: list[tuple[str, int]], unit_ns: int) -> ReadFiles:
    rows, summed, odd = [], dict[str, list[str]](), 0
    for line in lines:
        if line.startswith("ALL:"):
            break  # sums over CPUs: of figures that are here one by one
        if match := _BIN.match(line):
            rows.append([int(match[1]), *map(int, match[2].split())])
        elif match := _SUMMED.match(line):
            summed.setdefault(match[1], match[2].split())
        elif line.strip() and not line.startswith(("#", "Index", "rtla", "  ")) and _MISSED not in line:
            odd += 1
    whole = [row for row in rows if len(row) == len(columns) + 1]
    table = np.array(whole, np.int64).reshape(-1, len(columns) + 1)
    largest = max((int(_nth(summed.get("max"), place) or 0) for place in range(len(columns))), default=0)
    width, notes = _width(table[:, 0].tolist(), largest, unit_ns)
    if tool == "osnoise":
        notes += ("intervals shorter than its threshold (-T, 5 µs if not given) are not in any figure",)
    problems = _missed(path, lines)
    if "over" not in summed or ("count" in summed) != ("max" in summed):  # with --no-summary it ends with "over"
        problems.append(cut_short(path.name, f"{len(whole)} bins, without the totals that follow them"))
    figures = []
    # timerlat's means are cut to whole units, of values cut to whole units; osnoise's figures are of bins' beginnings.
    for place, (context, cpu) in enumerate(columns):
        metric, between = _CONTEXTS[context]
        over, least, mean, most = (_nth(summed.get(key), place) for key in ("over", "min", "avg", "max"))
        count = _nth(summed.get("count"), place)
        above = int(over or 0)
        held, n = int(table[:, place + 1].sum()), None if count is None else int(count)
        tally: Tally | None = Tally(
            table[:, 0] * unit_ns, (table[:, 0] + width) * unit_ns, table[:, place + 1], above=above
        )
        if len(whole) != len(rows) or (np.diff(table[:, 0]) <= 0).any() or n not in (None, held + above):
            expected = held + above if n is None else n
            problems.append(not_its_total(f"{path.name}, {context}-{cpu:03}", "count", expected, held + above))
            tally = None
        figures.append(
            Figures(
                stream=f"cpu-{cpu}",
                metric=metric,
                kept="histogram" if tally else "summary",
                between=between,
                resolution_ns=(width + 1 if tool == "osnoise" else 2) * unit_ns,
                n=n if n is not None or tally is None else tally.n,
                min=_ns(least, unit_ns),
                mean=None if mean is None else mean * unit_ns,
                max=_ns(most, unit_ns),
                tally=tally,
                talker=f"cpu-{cpu}",
                listener=f"cpu-{cpu}",
                described=f"CPU {cpu} · no packets",
            )
        )
    problems += _unit_problems(path, lines, figures, unit_ns)
    return ReadFiles(
        f"rtla {tool}",
        "version not in the file",
        _LATENCY[tool],
        figures=tuple(figures),
        notes=notes,
        left_out=(LeftOut("lines", odd, "not rtla's"),) if odd else (),
        problems=tuple(problems),
    )


def _unit_problems(path: Path, lines: list[str], figures: Sequence[Figures], unit_ns: int) -> list[Reason]:
    """Figures that cannot be in the unit that the heading names.

    Each cycle's latency lies within its period, or the period after it would be missed; and intervals of noise follow
    each other: in either direction all together take no longer than rtla ran.
    """
    took = next((match for line in lines if (match := _TOOK.match(line))), None)
    days, hours, minutes, seconds = map(int, took.groups()) if took else (0, 0, 0, 0)
    took_ns = (((days * 24 + hours) * 60 + minutes) * 60 + seconds + 1) * SECOND_NS
    problems = []
    for one in figures:
        least = one.mean if one.metric == "noise" else one.min
        together_ns = (least or 0) * (one.n or 0)
        if unit_ns == 1 and one.metric == "wakeup" and one.mean is not None and 0 < one.mean < _IMPOSSIBLE_NS:
            case, expected = "", f"a mean of {_IMPOSSIBLE_NS} ns or more"
            actual = f"{one.mean:.0f} ns, and no machine wakes a thread faster"
        elif took and unit_ns > 1 and together_ns > took_ns:
            case = "us"
            expected = f"at most the {took_ns // SECOND_NS} s that rtla ran"
            what = "mean" if one.metric == "noise" else "shortest"
            actual = f"{one.n} times the {what} {one.metric} are {together_ns / SECOND_NS:.0f} s"
        else:
            continue
        remedy = "check what changed the line `# Time unit is …`: rtla prints nanoseconds with -n, microseconds else"
        where = f"{path.name}, {one.stream}"
        problems.append(reason_of("unit-possible", where, expected, actual, remedy, case=case))
    return problems


def _width(starts: list[int], most: int, unit_ns: int) -> tuple[int, tuple[str, ...]]:
    """How wide bins are at most, in units, and what is said of it.

    rtla does not print its -b, and leaves out empty bins. Every bin begins at a multiple of the width, so it divides
    the greatest common divisor of what is printed; where that is one bin at 0, only the largest value bounds it.
    """
    width = math.gcd(*starts) or most + 1
    return width, () if width == 1 else (f"a bin's width is not in the file: it is {width * unit_ns} ns or less",)


def _nth(values: list[str] | None, place: int) -> float | None:
    """None also of what is −1 as unsigned: there was no value."""
    if not values or place >= len(values) or values[place] == "-" or float(values[place]) >= 2**63:
        return None
    return float(values[place])


def _ns(value: float | None, unit_ns: int) -> int | None:
    return None if value is None else int(value) * unit_ns


def _missed(path: Path, lines: list[str]) -> list[Reason]:
    """rtla says itself when the tracer lost events: what they would have shown is not in any figure."""
    said = next((line.strip() for line in lines if _MISSED in line), None)
    if said is None:
        return []
    return [reason_of("events-seen", path.name, "no missed events", said)]


def _of_no_noise(path: Path, lines: list[str]) -> ReadFiles:
    """A run in which no interval of noise was above the threshold: it has no CPU's column (osnoise_print_stats)."""
    figures = Figures(
        stream=_ALL_CPUS,
        metric="noise",
        kept="summary",
        between=_CONTEXTS["CPU"][1],
        resolution_ns=MICROSECOND_NS,
        n=0,
        talker=_ALL_CPUS,
        listener=_ALL_CPUS,
        described="all CPUs · no interval of noise above the threshold",
    )
    notes = ("no interval of noise was longer than the threshold (-T, 5 µs if not given): rtla names no CPU then",)
    return ReadFiles(
        "rtla osnoise",
        "version not in the file",
        _LATENCY["osnoise"],
        figures=(figures,),
        notes=notes,
        problems=tuple(_missed(path, lines)),
    )


def _of_top(path: Path, lines: list[str]) -> ReadFiles:
    """The last table that `osnoise top` or `hwnoise` printed: of each CPU the longest noise at an interval."""
    if any(_TIMERLAT_TOP in line for line in lines):
        raise UsageError(
            "the table of rtla timerlat top, which is not supported",
            where=str(path),
            remedy="measure with rtla timerlat hist, whose histogram has percentiles as well",
        )
    rows = {int(match[1]): match for line in lines if (match := _TOP.match(line))}
    if not rows:
        raise nothing_in(path, "CPU's row", "run rtla until it prints its table (-q -d 10s)")
    figures = tuple(
        Figures(
            stream=f"cpu-{cpu}",
            metric="noise",
            kept="summary",
            between=_CONTEXTS["CPU"][1],
            resolution_ns=MICROSECOND_NS,
            max=int(row[7]) * MICROSECOND_NS,
            talker=f"cpu-{cpu}",
            listener=f"cpu-{cpu}",
            described=f"CPU {cpu} · {row[2]} periods · {row[4]} µs of noise in {row[3]} µs · {row[5]} % left",
        )
        for cpu, row in sorted(rows.items())
    )
    notes = ("of single intervals of noise only the longest of each CPU is printed (Max Single)",)
    return ReadFiles(
        "rtla osnoise",
        "version not in the file",
        _LATENCY["osnoise"],
        figures=figures,
        notes=notes,
        problems=tuple(_missed(path, lines)),
    )


FORMAT: Final = Format(
    "rtla",
    "rtla's timerlat and osnoise histograms, and osnoise's and hwnoise's table",
    1,
    recognises,
    read,
    runs,
    r"# RTLA (timerlat|osnoise) histogram|(Operating System|Hardware-related) Noise\b",
)
