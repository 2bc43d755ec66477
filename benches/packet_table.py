"""Seconds and peak memory of reporting a large cell: `benches/packet_table.py [--packets N] [--values KIND]`.

Recordings are made as an agent writes them (batches of 4096 rows): one stream, some packets lost, every software
timestamp. The join and the whole analysis (statistics, intervals, tail, anomalies, windows, trust) run in a process of
their own, whose peak resident memory counts, mapped recordings included. Warnings are errors. The files were just
written: they are in the page cache.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray
from pyarrow import ipc

from latlab.recordings.arrow import FORMAT, SCHEMAS
from latlab.recordings.packets import build_packets
from latlab.recordings.run_folder import CellFolder

Array = NDArray[Any]
Columns = dict[str, Array]

BATCH_ROWS = 4096
RUN_ID = "8f3c5e0d12ab34cd"
START_TAI_NS = 1_800_000_000_000_000_000
TAI_OFFSET_NS = 37_000_000_000
PERIOD_NS = 20_000
LOST_EVERY = 100_003


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser(description="join and summarise a cell of N packets")
    parser.add_argument("--packets", type=int, default=10_000_000)
    parser.add_argument("--values", choices=DELAYS, default="exponential", help="how delays are distributed")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps({"values": arguments.values} | measure(CellFolder(arguments.measure))))
        return
    with tempfile.TemporaryDirectory(prefix="latlab-bench-") as root:
        folder = make_cell(Path(root) / "cells" / "loads=none" / "r1", arguments.packets, DELAYS[arguments.values])
        command = [sys.executable, "-W", "error", __file__, "--values", arguments.values, "--measure", str(folder.path)]
        subprocess.run(command, check=True)


def measure(folder: CellFolder) -> dict[str, float | int]:
    """Seconds of the join and of the analysis, this process's peak memory, the table's size on disk."""
    from latlab.evaluation.cell import cell_result

    began = time.perf_counter()
    build_packets(folder)
    joined = time.perf_counter()
    document = cell_result(folder).cell.document()
    ended = time.perf_counter()
    return {
        "packets": document["streams"]["control"]["counts"]["scheduled"],
        "lost": document["streams"]["control"]["counts"]["lost"],
        "join_s": round(joined - began, 2),
        "analysis_s": round(ended - joined, 2),
        "cpu_s": round(time.process_time(), 2),
        "total_s": round(ended - began, 2),
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "parquet_mib": folder.packets_path.stat().st_size >> 20,
    }


def make_cell(path: Path, packets: int, delays: Delays) -> CellFolder:
    """A cell's folder with cell.json and the recordings of `packets` packets."""
    path.mkdir(parents=True)
    folder = CellFolder(path)
    folder.write_cell(_cell(packets))
    readings = packets * PERIOD_NS // 1_000_000_000 + 4
    for verb, host, table, rows, columns in (
        ("talk", "sensor", "sent", packets, Sent(delays)),
        ("talk", "sensor", "stamps", 2 * packets, Stamps(delays)),
        ("talk", "sensor", "clocks", readings, _clocks),
        ("listen", "ecu", "received", packets, Received(delays)),
        ("listen", "ecu", "clocks", readings, _clocks),
    ):
        _write(folder.recording(verb, host, table), table, _batches(rows, columns))
    return folder


def _cell(packets: int) -> dict[str, object]:
    return {
        "format": "latlab.cell/1", "cell": {"loads": ["none"]}, "slug": "loads=none", "repeat": 1, "order": 1,
        "status": "ok", "reason": None, "label": "measured", "run_id": RUN_ID, "start_tai_ns": START_TAI_NS,
        "warmup_ns": 1_000_000_000, "duration_ns": packets * PERIOD_NS, "loads": [], "steps": [],
        "streams": [
            {
                "name": "control", "stream": 1, "talker": "sensor", "listener": "ecu", "period_ns": PERIOD_NS,
                "offset_ns": 0, "size": 64, "count": packets, "priority": 7, "transport": "udp", "vlan": None,
                "launch_time": None,
            }
        ],
        "agents": [],
        "clocks": [{"from": "sensor", "to": "ecu", "source": "one kernel", "lower_ns": 0, "upper_ns": 0}],
    }  # fmt: skip


def _uniform(sequence: Array, salt: int = 0) -> Array:
    """A number in (0, 1], the same for the same packet; another one for another salt."""
    odd = np.uint64(0x9E3779B97F4A7C15)
    mixed = ((sequence.astype(np.uint64) + np.uint64(salt << 40)) * odd) >> np.uint64(40)
    return (mixed + 1) / float(1 << 24)


def _of_share(delays: Callable[[Array], Array]) -> Delays:
    """Delays by a number in (0, 1] that each packet has."""
    return lambda sequence: delays(_uniform(sequence))


def _autocorrelated(sequence: Array) -> Array:
    """Exponential delays that packets share with their neighbours: a part each with 4, 16, … 4096 of them."""
    shares = [np.log(_uniform(sequence >> 2 * scale, scale)) for scale in range(7)]
    return 1_500 - 100 * np.sum(shares, axis=0)  # type: ignore[no-any-return]


def _wandering(sequence: Array) -> Array:
    """A level that goes up and down within a tenth of a second to minutes, and a little noise."""
    slowly = np.sum([300 * np.sin(sequence / 4.3**scale) for scale in range(6, 11)], axis=0)
    return 4_000 + slowly - 100 * np.log(_uniform(sequence))  # type: ignore[no-any-return]


def _backlog(sequence: Array) -> Array:
    """A stall of 20 ms each second, and a queue behind it that empties slowly: each packet waits 8 µs less."""
    phase = sequence % (1_000_000_000 // PERIOD_NS)
    waits = np.maximum(20_000_000 - 8_000.0 * phase, 0)
    return 1_500 + waits - 100 * np.log(_uniform(sequence))  # type: ignore[no-any-return]


Delays = Callable[[Array], Array]
DELAYS: dict[str, Delays] = {
    "exponential": _of_share(lambda share: 1_500 - 500 * np.log(share)),
    "lognormal": _of_share(lambda share: 1_500 * np.exp(0.5 * np.sqrt(-2 * np.log(share)))),
    "tail": _of_share(lambda share: 1_500 + 2 / (1e-5 + share)),
    "pareto": _of_share(lambda share: 1_500 * np.minimum(share**-0.8, 1e4)),
    "constant": _of_share(lambda share: np.full(len(share), 1_500.0)),
    "two": _of_share(lambda share: 1_500 + 10_000.0 * (share < 0.1)),
    "rare": _of_share(lambda share: 1_500 + 10_000.0 * (share < 1e-3)),
    "few": _of_share(lambda share: 1_500 + 2_000 * np.floor(4 * share * 0.999)),
    "lattice": _of_share(lambda share: 1_000 * np.round(1.5 - 0.5 * np.log(share))),
    "bimodal": _of_share(lambda share: 1_500 + 4_000.0 * (share < 0.4) - 100 * np.log(share)),
    "alternating": lambda sequence: 1_500 + 2_000.0 * (sequence % 2),
    "regular": lambda sequence: 1_500 + 2_000.0 * (sequence % 10 == 0) - 20 * np.log(_uniform(sequence)),
    "pairs": lambda sequence: 1_500 + 7_000.0 * (sequence % 5 == 0) - 20 * np.log(_uniform(sequence)),
    "gusts": lambda sequence: 1_500 + 2_000.0 * (_uniform(sequence // 30) < 0.1) - 100 * np.log(_uniform(sequence, 1)),
    "levels": lambda sequence: (
        1_500 + 2_000.0 * (_uniform(sequence // 9_000) < 0.2) - 100 * np.log(_uniform(sequence, 1))
    ),
    "autocorrelated": _autocorrelated,
    "wandering": _wandering,
    "backlog": _backlog,
}
"""ns of a stage, by the sequence number of each packet."""


class Table:
    """What fills the columns of one recording, batch by batch: a thread takes packets one after another."""

    def __init__(self, delays: Delays) -> None:
        self._delays = delays
        self._last: dict[str, int] = {}

    def at(self, name: str, sequence: Array, stage: int) -> Array:
        """When a stage ended, ns TAI, in the order of the rows."""
        late = self._delays(sequence).astype(np.int64)
        found: Array = np.maximum.accumulate(np.maximum(_launch(sequence) + stage * late, self._last.get(name, 0)))
        self._last[name] = int(found[-1])
        return found


def _launch(sequence: Array) -> Array:
    return START_TAI_NS + sequence.astype(np.int64) * PERIOD_NS


class Sent(Table):
    """Rows of what was handed over."""

    def __call__(self, row: Array) -> Columns:
        launch = _launch(row)
        return {
            "stream": np.ones(len(row), np.uint16),
            "sequence": row.astype(np.uint64),
            "launch_tai_ns": launch,
            "wake_due_tai_ns": launch,
            "wake_tai_ns": self.at("wake", row, 1),
            "submit_tai_ns": self.at("submit", row, 2),
            "error": np.zeros(len(row), np.int32),
            "late": np.zeros(len(row), np.uint8),
        }


class Stamps(Table):
    """Rows of the kernel's timestamps of leaving: two of each packet."""

    def __call__(self, row: Array) -> Columns:
        sequence, kind = row // 2, row % 2
        return {
            "stream": np.ones(len(row), np.uint16),
            "sequence": sequence.astype(np.uint64),
            "kind": kind.astype(np.uint8),
            "stamp_ns": self.at("stamp", sequence, 3) - TAI_OFFSET_NS + kind * 100,
        }


class Received(Table):
    """Rows of what arrived."""

    def __call__(self, row: Array) -> Columns:
        sequence = row[row % LOST_EVERY != 0]
        return {
            "stream": np.ones(len(sequence), np.uint16),
            "sequence": sequence.astype(np.uint64),
            "launch_tai_ns": _launch(sequence),
            "rx_soft_real_ns": self.at("soft", sequence, 5) - TAI_OFFSET_NS,
            "rx_user_tai_ns": self.at("user", sequence, 6),
        }


def _clocks(row: Array) -> Columns:
    """A reading a second, from before the first packet until after the last."""
    tai = START_TAI_NS + (row - 1) * 1_000_000_000
    return {
        "tai_ns": tai,
        "real_ns": tai - TAI_OFFSET_NS + 40,
        "monotonic_ns": tai - START_TAI_NS + 80,
        "monotonic_raw_ns": tai - START_TAI_NS + 120,
        "bracket_ns": np.full(len(row), 160, np.int64),
    }


def _batches(rows: int, columns: Callable[[Array], Columns]) -> Iterator[Columns]:
    for first in range(0, rows, BATCH_ROWS):
        yield columns(np.arange(first, min(rows, first + BATCH_ROWS), dtype=np.int64))


def _write(path: Path, table: str, batches: Iterator[Columns]) -> None:
    metadata = {"latlab.format": FORMAT, "latlab.table": table, "latlab.run_id": RUN_ID, "latlab.agent": "0"}
    schema = SCHEMAS[table].with_metadata(metadata)
    with pa.OSFile(str(path), "wb") as file, ipc.new_stream(file, schema) as stream:
        for columns in batches:
            rows = len(next(iter(columns.values())))
            arrays = [
                pa.array(columns[field.name]) if field.name in columns else pa.nulls(rows, field.type)
                for field in schema
            ]
            stream.write_batch(pa.record_batch(arrays, schema=schema))


if __name__ == "__main__":
    main()
