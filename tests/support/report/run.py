"""Run folders made of numbers: known distributions, a stall, losses, and a cell that could not be built."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from latlab.analysis.summary import JudgedCell, summarise_cell
from latlab.evaluation.run import judged_result
from latlab.model.reasons import reason_of
from latlab.recordings.run import RecordedRun
from latlab.recordings.run_folder import RunFolder
from support.suite.lanes import LANE

START_TAI_NS = 1_795_294_349_000_000_000
WARMUP_NS = 1_000_000_000
PERIODS_NS = {"control": 1_006_000, "status": 10_000_000}
DURATION_NS = 9_000_000_000
BRIEF_NS = 5_000_000_000
LOST = {"loads=none": 0, "loads=flood1": 7}


def packet_table(slug: str, number: int, period_ns: int, seed: int, duration_ns: int) -> pl.DataFrame:
    """The packet table of one stream of one cell, as docs/reference/run-folder.md gives it.

    Idle: a narrow body with a skewed tail. Loaded: slower, with losses and one stall of 6 ms that
    drains linearly, as when everything queued arrives at once.
    """
    rng = np.random.default_rng(seed)
    count = duration_ns // period_ns
    sequence = np.arange(count)
    launch = START_TAI_NS + sequence * period_ns
    loaded = slug != "loads=none"
    wake = launch + rng.gamma(3.0, 900.0, count).astype(np.int64) + 500
    submit = wake + rng.gamma(4.0, 300.0, count).astype(np.int64) + 400
    transmit = submit + rng.gamma(4.0, 500.0, count).astype(np.int64) + 900
    body = 9_000 + rng.gamma(6.0, 900.0 if not loaded else 2_600.0, count)
    tail = (rng.random(count) < 0.004) * rng.pareto(2.2, count) * (8_000 if not loaded else 40_000)
    path = np.minimum(body + tail, 900_000).astype(np.int64)
    if loaded:
        stall_ns = np.maximum(0, 6_000_000 - (launch - launch[count // 2]))
        path += np.where(np.arange(count) >= count // 2, stall_ns, 0)
    receive = transmit + path
    user = receive + rng.gamma(3.0, 1_500.0, count).astype(np.int64) + 1_200
    lost = np.zeros(count, dtype=bool)
    lost[rng.choice(np.arange(count // 5, count), LOST[slug], replace=False)] = True
    arrival = np.cumsum(~lost) - 1

    def unless_lost(values: NDArray[np.int64]) -> pl.Series:
        return pl.Series(
            [None if gone else int(value) for value, gone in zip(values, lost, strict=True)], dtype=pl.Int64
        )

    absent = pl.Series([None] * count, dtype=pl.Int64)
    return pl.DataFrame(
        {
            "stream": pl.Series([number] * count, dtype=pl.UInt16),
            "sequence": pl.Series(sequence, dtype=pl.UInt64),
            "launch_tai_ns": launch,
            "wake_due_tai_ns": launch,
            "wake_tai_ns": wake,
            "submit_tai_ns": submit,
            "tx_sched_tai_ns": submit + 400,
            "tx_soft_tai_ns": transmit,
            "tx_hard_tai_ns": absent,
            "rx_hard_tai_ns": absent,
            "rx_soft_tai_ns": unless_lost(receive),
            "rx_user_tai_ns": unless_lost(user),
            "arrival": unless_lost(arrival).cast(pl.UInt64),
            "send_error": pl.Series([0] * count, dtype=pl.Int32),
            "launch_error": pl.Series([0] * count, dtype=pl.UInt8),
            "warmup": launch < START_TAI_NS + WARMUP_NS,
        }
    )


def facts(host: str, moment: str) -> dict[str, Any]:
    """What one host said of itself; the counters and one IRQ affinity move between the two moments."""
    after = moment == "after"
    return {
        "kernel": {"release": "6.1.0-26-amd64", "cmdline": "quiet isolcpus=1", "preempt_rt": False},
        "cpu": {
            "model": "Example <CPU> & Co",
            "online": [0, 1],
            "governor": {"cpu0": "performance", "cpu1": "performance"},
        },
        "irq": {"24": {"name": f"{host}-eth0-rx-0", "affinity": "0-1" if after else "1"}},
        "steal_ticks": 118 if after else 104,
        "clock": {"source": "tsc", "tai_offset_s": 37},
    }


def cell_document(slug: str, repeat: int, order: int, status: str, duration_ns: int) -> dict[str, Any]:
    """cell.json."""
    load = slug.removeprefix("loads=")
    ok = status == "ok"
    return {
        "format": "latlab.cell/1",
        "cell": {"loads": [load]},
        "slug": slug,
        "repeat": repeat,
        "order": order,
        "status": status,
        "reason": None if ok else {"what": "no iperf3 on this machine", "where": "ecu", "remedy": "apt install iperf3"},
        "label": "measured",
        "run_id": f"8f3c5e0d12ab34c{order}",
        "start_tai_ns": START_TAI_NS,
        "warmup_ns": WARMUP_NS,
        "duration_ns": duration_ns,
        "streams": [
            {
                "name": name,
                "stream": number,
                "talker": "sensor",
                "listener": "ecu",
                "period_ns": period_ns,
                "offset_ns": 0,
                "size": 64,
                "count": DURATION_NS // period_ns,
                "priority": 7,
                "transport": "udp",
                "vlan": None,
                "launch_time": None,
            }
            for number, (name, period_ns) in enumerate(PERIODS_NS.items(), start=1)
        ],
        "agents": [
            {
                "host": "sensor",
                "verb": "talk",
                "ready": {
                    "version": "0.1.0",
                    "realtime": {
                        "policy": "SCHED_FIFO",
                        "priority": 90,
                        "cpus": [1],
                        "problems": ["no cpu_dma_latency"],
                    },
                },
                "done": {"ring_full": 0},
                "error": None,
            }
        ]
        if ok
        else [],
        "loads": load_documents(slug) if ok else [],
        "clocks": [{"from": "sensor", "to": "ecu", "source": "one kernel", "lower_ns": 0, "upper_ns": 0}] if ok else [],
        "steps": [
            {
                "host": "sensor",
                "title": "create the link",
                "command": "ip link add eth0 type veth peer name eth0 netns ecu",
                "seconds": 0.012,
                "expected": "up",
                "actual": "up",
                "ok": True,
            },
            {
                "host": "ecu",
                "title": "give it an address",
                "command": "ip address add 10.78.0.2/24 dev eth0",
                "seconds": 0.008,
                "expected": "10.78.0.2/24",
                "actual": "10.78.0.2/24",
                "ok": True,
            },
        ],
    }


def load_documents(slug: str) -> list[dict[str, Any]]:
    """The loads of one cell."""
    if slug == "loads=none":
        return []
    return [
        {
            "name": "flood1",
            "kind": "flood",
            "from": "sensor",
            "to": "ecu",
            "version": "0.1.0",
            "commands": ["latlab-agent flood"],
            "asked_bps": None,
            "sent_bps": 812_000_000.0,
            "received_bps": 810_000_000.0,
            "sent_pps": 72_500.0,
            "detail": {},
        }
    ]


NAME = "20261121-205152-first-3f9a"
MATRIX_NAME = "20261121-205152-bridges-3f9a"
MATRIX = (
    ("loads=none", 1, "ok"),
    ("loads=flood1", 1, "ok"),
    ("loads=iperf3", 1, "unavailable"),
    ("loads=flood1", 2, "ok"),
    ("loads=none", 2, "ok"),
)
ISOLATION = reason_of(
    "cpus-isolated",
    where="sensor",
    expected="CPU 1 isolated",
    actual="CPU 1 takes part in load balancing",
    remedy="boot with isolcpus=1",
)


def write_run(path: Path, *, scenario: str = "first", duration_ns: int = DURATION_NS) -> Path:
    """A whole run folder: two cells twice, ok; a third that this machine cannot build."""
    folder = RunFolder(path)
    folder.write_run(
        RecordedRun.model_validate(
            {
                "format": "latlab.run/1",
                "run": path.name,
                "name": scenario,
                "seed": 42,
                "order": [{"slug": slug, "repeat": repeat} for slug, repeat, _ in MATRIX],
                "versions": {"latlab": "0.1.0", "latlab-agent": "0.1.0", "python": "3.11.2"},
                "started": "2026-11-21T20:51:52+00:00",
                "ended": "2026-11-21T20:52:41+00:00",
                "exit_status": 1,
            }
        )
    )
    cells = [write_cell(folder, order, *cell, duration_ns) for order, cell in enumerate(MATRIX, start=1)]
    folder.write_result(judged_result(folder.run(), cells, {"control.latency.max": 500_000}).document())
    folder.scenario_path.write_text(f"name: {json.dumps(scenario)}\nduration: 8s\nwarmup: 1s\n")
    folder.plan_path.write_text(
        "# on <sensor>\nethtool -K eth0 gro off\nip link add eth0 type veth peer name eth0 netns ecu\n"
    )
    return path


def write_cell(run: RunFolder, order: int, slug: str, repeat: int, status: str, duration_ns: int) -> JudgedCell:
    """One cell's folder; returns its part of the result."""
    cell = run.add_cell(slug, repeat)
    cell.write_cell(cell_document(slug, repeat, order, status, duration_ns))
    document = cell.cell()
    if status != "ok":
        return JudgedCell(summarise_cell(document, None))
    for moment in ("before", "after"):
        cell.write_facts(moment, {host: facts(host, moment) for host in ("sensor", "ecu")})
    packets = pl.concat(
        packet_table(slug, number, period_ns, order * 10 + number, duration_ns)
        for number, period_ns in enumerate(PERIODS_NS.values(), start=1)
    )
    packets.write_parquet(cell.packets_path)
    return JudgedCell.of(summarise_cell(document, packets), [ISOLATION])


def made_once(factory: pytest.TempPathFactory, title: str, name: str, make: Callable[[Path], object]) -> Path:
    """The folder `name` that `make` fills, once for all the processes that run tests side by side."""
    shared = factory.getbasetemp().parent if LANE else factory.getbasetemp()
    home, begun = shared / title, shared / f"{title}.begun"
    with (shared / f"{title}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.exists():
            shutil.rmtree(begun, ignore_errors=True)
            (begun / name).mkdir(parents=True)
            make(begun / name)
            begun.rename(home)
    return home / name
