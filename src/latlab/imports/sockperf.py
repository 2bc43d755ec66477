"""sockperf's --full-log: a row for each observation of a ping-pong, under-load or playback run.

sockperf 3.4 to 3.10, src/client.cpp (dumpFullLog, client_statistics).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from latlab.analysis.words import counted
from latlab.imports.base import (
    COLOURS,
    Format,
    Given,
    PacketStream,
    ReadFiles,
    Stamps,
    cut_short,
    from_each,
    lines_of,
    not_its_total,
    nothing_in,
    unknown_version,
)
from latlab.imports.packets import clock_problems, in_order_of, usual_gap_ns, went_back_ns
from latlab.model.errors import UsageError
from latlab.model.units import MICROSECOND_NS, SECOND_NS, in_us
from latlab.recordings.cell import LeftOut

LATENCY: Final = (
    "round trip, from just before the client's send call until it has the answer: rxTime − txTime of the log, "
    "regardless of the log's last column (RTT / 2 without --full-rtt)"
)
_HEADING: Final = re.compile(r"^packet, txTime\(sec\), rxTime\(sec\), (?:rtt|latency)\(usec\)\s*$")
_SEPARATOR: Final = ", "
_ANY_HEADING: Final = re.compile(r'^"?packet"?(\W{1,9}?)"?txTime\(sec\)"?\1"?rxTime\(sec\)')
"""The heading, whatever stands between its columns."""
_ROW: Final = re.compile(r"^\d{1,12}, (-?\d{1,9})\.(\d{9}), (-?\d{1,9})\.(\d{9}), (-?\d{1,12})\.(\d{3})$")
_OLD: Final = "txTime, rxTime"
_SERVER: Final = re.compile(r"statistics for Server No: (\d{1,6})")
_VALID: Final = re.compile(r"\[Valid Duration\].*SentMessages=(\d{1,15}); ReceivedMessages=(\d{1,15})")
_DROPPED: Final = re.compile(
    r"# dropped messages = (\d{1,15}); # duplicated messages = (\d{1,15}); # out-of-order .* (\d{1,15})"
)
_OBSERVATIONS: Final = re.compile(r"Total (\d{1,15}) observations")
_PARAMETERS: Final = re.compile(r"^test was performed using the following parameters: (.*)$")
_SIZE: Final = re.compile(r"--msg-size=(\d{1,7})\b")


@dataclass
class _Server:
    """One server's rows as they are read: tx_ns, rx_ns, shown_ps (the log's last column, 10⁻¹² s)."""

    number: int
    headed: bool = False
    ended: bool = False
    counted: dict[str, int] = field(default_factory=dict)
    rows: list[tuple[int, int, int]] = field(default_factory=list)


def recognises(head: bytes, path: Path) -> float:
    """Sure of the heading of the rows; rather sure of what stands before it."""
    text = head.decode("utf-8", "replace")
    if re.search(r"^packet, txTime\(sec\), rxTime\(sec\), ", text, re.MULTILINE):
        return 1.0
    if re.search(r"^txTime, rxTime\s*$", text, re.MULTILINE):
        return 0.9
    printed = r"^sockperf: (== version|=+ Printing statistics for)|^test was performed using the following parameters"
    return 0.8 if re.search(printed, text, re.MULTILINE) else 0.0


def runs(lines: Sequence[str]) -> list[list[int]]:
    """The lines of each run: one begins with its parameters, or with a server's number that is not higher."""
    begins, last, rows = list[int](), -1, False
    plain = [COLOURS.sub("", raw) for raw in lines]
    for place, line in enumerate(plain):
        if _PARAMETERS.match(line):
            # A rule stands before them; one that follows a row ends that run.
            ruled = place > 1 and plain[place - 1].startswith("------") and not _ROW.match(plain[place - 2])
            begins += [place - ruled] if rows else []
            last, rows = -1, False
        elif match := _SERVER.search(line):
            begins += [place] if rows and int(match[1]) <= last else []
            last = int(match[1])
        rows = rows or bool(_ROW.match(line))
    return from_each(begins, len(lines))


def read(paths: Sequence[Path], given: Given) -> ReadFiles:
    """One stream a server. UsageError: another version, or no observation is in it."""
    (path,) = paths
    lines = lines_of(path)
    if _OLD in lines:
        raise unknown_version(path, "the log of sockperf 3.3 or older", "those of 3.4 to 3.10")
    servers, parameters, odd = _parse(lines)
    servers = [server for server in servers if server.rows]
    if not servers:
        if separator := _other_separator(lines):
            raise UsageError(
                f"its columns are separated by {separator!r}: expected {_SEPARATOR!r}, as sockperf writes them",
                where=str(path),
                remedy="give the log as sockperf wrote it; a spreadsheet writes another format",
            )
        raise nothing_in(path, "observation", "run sockperf for longer than its warm-up, with --full-log FILE")
    left_out = [LeftOut("rows", odd, "not a row of a log, or truncated")] if odd else []
    left_out += [
        LeftOut("messages", late, "sockperf omits out-of-order answers from its log")
        for server in servers
        if (late := server.counted.get("out of order", 0))
    ]
    size = _SIZE.search(parameters)
    streams = [_stream(server, int(size[1]) if size else None) for server in servers]
    problems = [cut_short(path.name, "rows without the line that ends them") for one in servers if not one.ended]
    for server in servers:
        where = f"{path.name}, server {server.number}"
        printed, least = server.counted.get("observations"), _received_once(server)
        if printed is not None and printed != len(server.rows):
            problems.append(not_its_total(where, "Total observations", printed, len(server.rows)))
        elif printed is None and len(server.rows) < least:
            problems.append(not_its_total(where, "ReceivedMessages", least, len(server.rows)))
        back = went_back_ns(np.array([row[0] for row in server.rows], np.int64))
        problems += clock_problems(where, back, 0)
    return ReadFiles(
        "sockperf",
        "the log of 3.4 to 3.10 (it does not say which)",
        LATENCY,
        streams=tuple(streams),
        notes=(
            "counted from the send call, not from a schedule: a stall of the client is not visible",
            "answered messages of the valid time only: sockperf leaves out warm-up and cool-down",
            *_apart(servers),
        ),
        left_out=tuple(left_out),
        problems=tuple(problems),
        facts={"parameters": parameters},
    )


def _parse(lines: Sequence[str]) -> tuple[list[_Server], str, int]:
    """Each server's rows, the parameters, and how many rows are none."""
    servers: list[_Server] = []
    parameters, odd = "", 0
    for line in lines:
        last = servers[-1] if servers else None
        if match := _ROW.match(line):
            if last and last.headed and not last.ended:
                tx_s, tx_ns, rx_s, rx_ns, shown_us, shown_ns = match.groups()
                shown = _whole(shown_us, shown_ns, MICROSECOND_NS)
                last.rows.append((_whole(tx_s, tx_ns, SECOND_NS), _whole(rx_s, rx_ns, SECOND_NS), shown))
            else:
                odd += 1
        elif match := _HEADING.match(line):
            if last is None or last.headed:
                last = _Server(len(servers))
                servers.append(last)
            last.headed = True
        elif match := _SERVER.search(line):
            servers.append(_Server(int(match[1])))
        elif last and last.headed and not last.ended:
            last.ended = line.startswith("------")
            odd += not last.ended
        elif match := _PARAMETERS.match(line):
            parameters = match[1]
        elif last and (match := _VALID.search(line)):
            last.counted |= {"sent": int(match[1]), "received": int(match[2])}
        elif last and (match := _OBSERVATIONS.search(line)):
            last.counted["observations"] = int(match[1])
        elif last and (match := _DROPPED.search(line)):
            last.counted |= dict(zip(("dropped", "duplicated", "out of order"), map(int, match.groups()), strict=True))
    return servers, parameters, odd


def _received_once(server: _Server) -> int:
    """How many answers the log has a row of at least: those received, but for copies and those out of order."""
    said = server.counted
    return said.get("received", 0) - said.get("duplicated", 0) - said.get("out of order", 0)


def _other_separator(lines: Sequence[str]) -> str | None:
    """What stands between the columns of a heading that is sockperf's but for that; None: there is none."""
    found = next(filter(None, map(_ANY_HEADING.match, lines)), None)
    return found[1] if found and found[1] != _SEPARATOR else None


def _whole(units: str, rest: str, parts: int) -> int:
    """ "-2" and "500" of 1000 parts: −2500; what is between −1 and 0 is "-0"."""
    return int(units) * parts + (-int(rest) if units.startswith("-") else int(rest))


def _stream(server: _Server, size: int | None) -> PacketStream:
    table = np.array(server.rows, np.int64)
    n = len(table)
    everyone = np.ones(n, np.bool_)
    tx_ns, rx_ns = np.ascontiguousarray(table[:, 0]), np.ascontiguousarray(table[:, 1])
    counts: dict[str, int | None] = {"lost": server.counted.get("dropped")}
    for name, said in (("sent", "sent"), ("received", "received"), ("duplicated", "duplicated")):
        if said in server.counted:
            counts[name] = server.counted[said]
    if "out of order" in server.counted:
        counts["reordered"] = server.counted["out of order"]
    gap_ns = usual_gap_ns(tx_ns)
    told = f" · {size} bytes" if size is not None else ""
    return PacketStream(
        name=f"server-{server.number}",
        talker="client",
        listener="client",
        described=f"client → server {server.number} → client · a message every {in_us(gap_ns)} (median){told}",
        stamps={"submit": Stamps(tx_ns, everyone), "answered": Stamps(rx_ns, everyone)},
        metrics=("round_trip",),
        sent=everyone,
        arrived=everyone,
        arrival=in_order_of(rx_ns, everyone),
        period_ns=gap_ns,
        two_clocks=False,
        size=size,
        counts=counts,
    )


def _apart(servers: Sequence[_Server]) -> list[str]:
    """Where the log's own column is not what its two timestamps say, to the 4 ns to which halves can be doubled.

    Whether it is halved its heading does not say in every version: all rows of a server are alike.
    """
    apart = 0
    for server in servers:
        table = np.array(server.rows, np.int64)
        trip = table[:, 1] - table[:, 0]
        apart += min(int(np.count_nonzero(np.abs(trip - table[:, 2] * times) > 4)) for times in (1, 2))
    if not apart:
        return []
    rows = counted(apart, "row")
    return [f"in {rows} the last column differs from the two timestamps, which are used"]


FORMAT: Final = Format(
    "sockperf",
    "sockperf's --full-log, message by message",
    1,
    recognises,
    read,
    runs,
    r"packet, txTime\(sec\), rxTime\(sec\)|sockperf: =+ Printing statistics",
)
