"""What every reader of a foreign format takes and gives."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.bins import Tally, bin_of_percentiles
from latlab.model.errors import UsageError
from latlab.model.reasons import Reason, reason_of
from latlab.recordings.cell import KeptAround, LeftOut, ToolInterval, WatchedLosses

INT64: Final = 2**63
"""Values from here on fit no column."""

LINE_BYTES: Final = 1 << 20
JSON_BYTES: Final = 32 << 20
"""JSON is read as a whole, and takes many times its size then."""

COLOURS: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|\x1bc")
"""What programs print to colour or clear a terminal (ECMA-48 control sequences), even into files."""

Kept = Literal["histogram", "intervals", "summary"]


@dataclass(frozen=True)
class Given:
    """What the user states about the files, because they do not contain it.

    columns: what the columns of a table without a heading are, in the tool's own letters. unit: of numbers that name
    none, ns or us. clock_bound_ns: by how much any two of the clocks that took the timestamps may differ at most.
    """

    columns: str | None = None
    unit: Literal["ns", "us"] | None = None
    clock_bound_ns: int | None = None


@dataclass(frozen=True)
class Stamps:
    """One timestamp of each packet, int64 ns [n], and which of them are there, bool [n]."""

    ns: NDArray[np.int64]
    there: NDArray[np.bool_]

    @classmethod
    def where_set(cls, ns: NDArray[np.int64], least_ns: int = 1) -> Stamps:
        """Those of `ns` from `least_ns` on; below is the tool's way of saying that there is none."""
        return cls(ns, ns >= least_ns)


@dataclass(frozen=True)
class PacketStream:
    """A stream whose single packets are known, by sequence from 0: n rows of the packet table.

    stamps: {timestamp: Stamps [n]}, by the names of the packet table without `_tai_ns`. metrics: what may be computed
    of them. sent, arrived: bool [n]; arrival: int64 [arrived], the packets that arrived, in the order in which they
    did. two_clocks: the talker's and the listener's timestamps are of different clocks. counts: what the tool counted
    itself, which stands instead of what the rows say; None is unknown. described: one line for people. bound_ns: by how
    much timestamps of the two clocks may be off, where that is known of this stream. hosts: whose clocks they are.
    places: int64 [n], which packet of the talker's capture each is. losses: where lost ones were dropped, if that was
    watched. points: of packets that were watched from where to where, or where alone.
    """

    name: str
    talker: str
    listener: str
    described: str
    stamps: Mapping[str, Stamps]
    metrics: tuple[str, ...]
    sent: NDArray[np.bool_]
    arrived: NDArray[np.bool_]
    arrival: NDArray[np.int64]
    period_ns: int
    two_clocks: bool
    size: int | None = None
    counts: Mapping[str, int | None] = field(default_factory=dict)
    bound_ns: int | None = None
    hosts: tuple[str, str] = ("", "")
    places: NDArray[np.int64] | None = None
    losses: WatchedLosses | None = None
    points: tuple[str, ...] = ()


@dataclass(frozen=True)
class Figures:
    """One metric of one stream of which single values are not known, ns.

    kept: what is left of the values. resolution_ns: a figure is the true one rounded down or to the nearest by less
    than this, whatever it is. n, min, mean, max, stddev: as the tool says them, of all values; None where it does not.
    percentiles: those that it says itself, {"p50": ns}, where they are of all values. binned: they are of bins. tally:
    kept `histogram`. intervals: kept `intervals`. two_clocks: a difference of two clocks. between: the two moments
    subtracted, start and end; "" and the whole formula where it is more than that.
    """

    stream: str
    metric: str
    kept: Kept
    between: tuple[str, str]
    resolution_ns: int
    n: int | None = None
    min: int | None = None
    mean: float | None = None
    max: int | None = None
    stddev: float | None = None
    min_sequence: int | None = None
    max_sequence: int | None = None
    lost: int | None = None
    percentiles: Mapping[str, int] = field(default_factory=dict)
    binned: bool = False
    tally: Tally | None = None
    intervals: tuple[ToolInterval, ...] = ()
    two_clocks: bool = False
    talker: str = "sender"
    listener: str = "receiver"
    described: str = ""


@dataclass(frozen=True)
class ReadFiles:
    """What one reader found in its files.

    version: of the tool or of its format, as far as the file says it. latency: what the tool's latency is, in one
    sentence. notes: what to know when reading the figures. problems: what makes them doubtful. facts: what else the
    files say of the measurement. by_latlab: no other program measured it. flights: what was kept around late packets.
    """

    tool: str
    version: str
    latency: str
    streams: tuple[PacketStream, ...] = ()
    figures: tuple[Figures, ...] = ()
    notes: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    problems: tuple[Reason, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    by_latlab: bool = False
    flights: tuple[KeptAround, ...] = ()


@dataclass(frozen=True)
class Format:
    """One format. files: how many make one measurement. recognises: from the first HEAD bytes and the name, how likely
    it is that a file has it, 0 to 1. read: LatlabError says what is wrong with the files.

    runs: of a text's lines, those of each run that was appended to the file, as their numbers from 0; None for a format
    that is no text. mark: what its lines have in them, wherever it stands in them: a file that has it in its lines, and
    that is recognised as nothing, is named by it. most_bytes: a file that is larger is none; None: any size,
    in lines of at most LINE_BYTES.
    """

    name: str
    what: str
    files: int
    recognises: Callable[[bytes, Path], float]
    read: Callable[[Sequence[Path], Given], ReadFiles]
    runs: Callable[[Sequence[str]], list[list[int]]] | None = None
    mark: str = ""
    most_bytes: int | None = None


def from_each(begins: Sequence[int], n: int) -> list[list[int]]:
    """The numbers of each run's lines, of n lines, where runs begin at the lines `begins`; the first has all before."""
    starts = [0, *sorted(set(begins) - {0})]
    return [list(range(start, end)) for start, end in zip(starts, [*starts[1:], n], strict=True)]


HEAD: Final = 1 << 16


def restarts(numbers: Sequence[int]) -> list[int]:
    """Where sequence numbers begin again: two that follow each other, ascend, were there before, and are lower.

    One that comes again alone is a copy, or late.
    """
    found, seen = list[int](), set[int]()
    for place, number in enumerate(numbers):
        following = numbers[place + 1] if place + 1 < len(numbers) else None
        again = place > 0 and number < numbers[place - 1] and number in seen
        if again and following is not None and following > number and following in seen:
            found.append(place)
            seen = set()
        seen.add(number)
    return found


def unknown_version(path: Path, found: str, known: str) -> UsageError:
    """The error for a file of a version that its reader does not know."""
    return UsageError(
        f"{found}: latlab reads {known}",
        where=str(path),
        remedy="export it with a supported version of the tool, or in another format: latlab import --list",
    )


def nothing_in(path: Path, what: str, remedy: str) -> UsageError:
    """The error for a file that has the format and holds nothing."""
    return UsageError(f"empty: there is no {what} in it", where=str(path), remedy=remedy)


def not_what_it_says(path: Path, what: str) -> UsageError:
    """The error for a file that begins like the format and continues as something else."""
    return UsageError(what, where=str(path), remedy="give its format with --as; latlab import --list shows the formats")


def cut_short(where: str, actual: str) -> Reason:
    """What was read of a file that ends too early is kept, and this is said of it."""
    return reason_of("file-whole", where, "the complete file", actual)


def not_its_total(where: str, what: str, printed: int, read: int) -> Reason:
    """What is said of rows that are not all that the program counted. what: of which of its figures they are."""
    return reason_of(
        "rows-whole",
        where,
        f"{printed} values, as the program counted them ({what})",
        f"{read} in the rows that were read",
    )


def signed(value: int) -> int:
    """A 64 bit number that was printed unsigned, as what it was before: 2**64 − 500 is −500."""
    return value - 2**64 if 2**63 <= value < 2**64 else value


def too_large(path: Path, most_bytes: int) -> UsageError:
    """The error for a file that is larger than any of its format."""
    return not_what_it_says(path, f"it is larger than {most_bytes >> 20} MiB")


def raw_lines(path: Path, longest: int = LINE_BYTES) -> Iterator[str]:
    """The lines of a text file, without their ends; bytes that are no UTF-8 become replacement characters.

    UsageError: a line is longer than `longest` bytes.
    """
    number = 0
    with path.open("rb") as file:
        while line := file.readline(longest + 1):
            if len(line) > longest:
                raise not_what_it_says(path, f"line {number + 1} is longer than {longest >> 20} MiB")
            lines = line.decode("utf-8", "replace").splitlines() or [""]
            number += len(lines)
            yield from lines


def lines_of(path: Path) -> list[str]:
    """The lines as of `raw_lines`, without terminals' colour codes.

    UsageError: a line is longer than any that programs write.
    """
    return [COLOURS.sub("", line) for line in raw_lines(path)]


# Percentiles of a histogram, where the histogram itself is not kept next to them.


def with_percentiles(figures: Figures) -> Figures:
    """The figures with the percentiles that their histogram has: the lower ends of the bins that these lie in.

    resolution_ns is a bin's width then, if that is more. Figures without a histogram are as they were.
    """
    if figures.tally is None:
        return figures
    bins = bin_of_percentiles(figures.tally)
    return replace(
        figures,
        percentiles={name: found[0] for name, found in bins.items() if found is not None},
        resolution_ns=max(figures.resolution_ns, figures.tally.width_ns),
    )
