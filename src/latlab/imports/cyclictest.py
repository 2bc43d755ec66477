"""cyclictest's histograms: what -h, -H and -q print, and its --json file.

rt-tests 2.4, src/cyclictest/cyclictest.c (print_hist, print_stat, write_stats).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from latlab.analysis.tally import Tally
from latlab.imports.base import (
    INT64,
    JSON_BYTES,
    NS_OF,
    Figures,
    Format,
    Given,
    Imported,
    LeftOut,
    cut_short,
    lines_of,
    not_what_it_says,
    nothing_in,
    unknown_version,
)

LATENCY: Final = (
    "no packets: wake-up latency of a thread, from the instant its timer was set for until it ran; a stall of several "
    "periods counts once, as cyclictest skips the periods it missed"
)
FILE_VERSION: Final = 1
_TEXT_VERSION: Final = "version not in the file"
_BETWEEN: Final = ("wake_due", "wake")
_MOST_THREADS: Final = 4096
_TEXT_MEANS: Final = 2
"""Units by less than which the mean may be too low: its values were cut to whole units, and then itself once more."""

_ROW: Final = re.compile(r"^(\d{6,15})((?:[ \t]+\d{1,15})+)[ \t]*$")
_SUMMED: Final = re.compile(r"^# ((?:Min|Avg|Max) Latencies|Histogram Overflows):((?: +\d+)*)\s*$")
_THREAD: Final = re.compile(
    r"^T:\s*(\d+) \(\s*\d+\) P:\s*(\d+) I:(\d+) C:\s*(\d+) Min:\s*(\d+) Act:\s*\d+ Avg:\s*(\d+) Max:\s*(\d+)"
)

_JSON_VERSION: Final = re.compile(rb'"rt_test_version:?"\s*:')
_JSON_COMMAND: Final = re.compile(rb'"cmdline:?"\s*:\s*"(?:[^"\s]*/)?cyclictest(?=["\s])')
"""rt-tests writes some keys with a colon of their own (write_stats in 2.4); its command may be called by path."""


def recognises_text(head: bytes, path: Path) -> float:
    """Sure of a histogram's beginning, or of a line of a thread."""
    text = head.decode("utf-8", "replace")
    if re.search(r"^# Histogram\s*$", text, re.MULTILINE) and re.search(r"^\d{6} \d{6}", text, re.MULTILINE):
        return 1.0
    return 0.9 if re.search(r"^T:\s*\d+ \(\s*\d+\) P:", text, re.MULTILINE) else 0.0


def recognises_json(head: bytes, path: Path) -> float:
    """Sure where rt-tests' version and cyclictest's command line stand at the beginning."""
    return 1.0 if _JSON_VERSION.search(head) and _JSON_COMMAND.search(head) else 0.0


def read_text(paths: Sequence[Path], given: Given) -> Imported:
    """One stream a thread, or one of all threads where their number differs from the figures'."""
    (path,) = paths
    rows: list[list[int]] = []
    summed: dict[str, list[int]] = {}
    threads: list[tuple[int, ...]] = []
    odd = 0
    for line in lines_of(path):
        if match := _ROW.match(line):
            rows.append([int(match[1]), *map(int, match[2].split())])
        elif match := _SUMMED.match(line):
            summed[match[1]] = [int(number) for number in match[2].split() if len(number) < 19]
        elif match := _THREAD.match(line):
            threads.append(tuple(int(number) for number in match.groups() if len(number) < 19))
        elif line.strip() and not line.startswith(("#", "policy:", "WARN")):
            odd += 1
    ns = NS_OF[given.unit or "us"]
    notes = () if given.unit else ("its text names no unit: taken to be microseconds, as without -N (else --unit ns)",)
    left_out = (LeftOut("lines", odd, "they are none of cyclictest's"),) if odd else ()
    if rows:
        figures, problems = _of_histogram(path, rows, summed, ns)
    elif threads:
        figures, problems = [_of_line(thread, ns) for thread in threads if len(thread) == 7], []
    else:
        raise nothing_in(path, "histogram and no line of a thread", "run cyclictest with -q, and -h for percentiles")
    return Imported(
        "cyclictest",
        _TEXT_VERSION,
        LATENCY,
        figures=tuple(figures),
        notes=(*notes, *_skipped([one.n or 0 for one in figures])),
        left_out=left_out,
        problems=tuple(problems),
    )


def _of_histogram(path: Path, rows: list[list[int]], summed: dict[str, list[int]], ns: int) -> Any:
    threads = len(rows[0]) - 1
    whole = [row for row in rows if len(row) == threads + 1]
    table = np.array(whole, np.int64)
    # With -H a last column sums all threads: it stands in no line of its own but those of the figures.
    columns = len(summed.get("Min Latencies", ())) or threads
    overflows = summed.get("Histogram Overflows", [])
    problems = []
    if "Max Latencies" not in summed or len(overflows) < columns:
        problems.append(cut_short(path.name, f"{len(whole)} bins, without the totals that follow them"))
    figures = []
    for thread in range(min(columns, threads, _MOST_THREADS)):
        tally = Tally(
            table[:, 0] * ns,
            (table[:, 0] + 1) * ns,
            table[:, thread + 1],
            above=overflows[thread] if thread < len(overflows) else 0,
        )
        least, mean, most = (_nth(summed.get(f"{what} Latencies"), thread, ns) for what in ("Min", "Avg", "Max"))
        figures.append(_thread_figures(thread, _TEXT_MEANS * ns, tally, least, mean, most))
    return figures, problems


def _of_line(thread: tuple[int, ...], ns: int) -> Figures:
    number, priority, interval_us, cycles, least, mean, most = thread
    found = _thread_figures(number, _TEXT_MEANS * ns, None, least * ns, mean * ns, most * ns)
    return replace(found, n=cycles, described=f"thread {number} · priority {priority} · every {interval_us} µs")


def _nth(values: list[int] | None, place: int, ns: int) -> int | None:
    return values[place] * ns if values and place < len(values) else None


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
    """Threads of one interval make as many cycles; one that made far fewer has skipped periods."""
    if len(cycles) < 2 or min(cycles) >= 0.99 * max(cycles):
        return ()
    return (f"a thread made {min(cycles)} cycles while another made {max(cycles)}: periods it missed count as none",)


def read_json(paths: Sequence[Path], given: Given) -> Imported:
    """One stream a thread, with its histogram where there is one."""
    (path,) = paths
    document = _json(path)
    version = document.get("file_version")
    if version != FILE_VERSION:
        raise unknown_version(path, f"cyclictest's JSON, file version {version!r}", f"file version {FILE_VERSION}")
    threads = document.get("thread")
    if not isinstance(threads, dict) or not threads:
        raise nothing_in(path, "thread", "run cyclictest to its end: it writes the file there")
    ns = 1 if document.get("resolution_in_ns") else 1_000
    figures, odd = [], 0
    for name, thread in list(threads.items())[:_MOST_THREADS]:
        found = _json_thread(str(name), thread, ns)
        odd += found is None
        figures += [found] if found else []
    if not figures:
        raise not_what_it_says(path, "no thread in it has cycles, min, avg and max")
    return Imported(
        "cyclictest",
        f"rt-tests {_told(document, 'rt_test_version') or 'unknown'}",
        LATENCY,
        figures=tuple(figures),
        notes=_skipped([one.n or 0 for one in figures]),
        left_out=(LeftOut("threads", odd, "they have no cycles, min, avg and max"),) if odd else (),
        facts={"command": _told(document, "cmdline"), "system": document.get("sysinfo")},
    )


def _told(document: dict[str, Any], key: str) -> Any:
    """What stands there as `key`, or as the same with a colon in it; None: neither does."""
    return document.get(f"{key}:", document.get(key))


def _json(path: Path) -> dict[str, Any]:
    if path.stat().st_size > JSON_BYTES:
        raise not_what_it_says(path, f"it is larger than {JSON_BYTES >> 20} MiB")
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise not_what_it_says(path, f"its JSON cannot be read: {str(error) or 'nested too deeply'}") from error
    if not isinstance(document, dict):
        raise not_what_it_says(path, "its JSON is no object")
    return document


def _json_thread(name: str, thread: Any, ns: int) -> Figures | None:
    """The thread's figures; None where it has none. Its cycles count those beyond the histogram, too."""
    try:
        cycles, least, most = (_number(thread[key]) for key in ("cycles", "min", "max"))
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


def _number(value: Any) -> int:
    """An integer of 0 or more that stays one in nanoseconds; ValueError: it is none."""
    number = int(value)
    if not 0 <= number < INT64 // 4_000:
        raise ValueError(number)
    return number


TEXT: Final = Format(
    "cyclictest", "cyclictest's output: a histogram (-h, -H) or a line a thread (-q)", 1, recognises_text, read_text
)
JSON: Final = Format("cyclictest-json", "cyclictest's --json file", 1, recognises_json, read_json)
