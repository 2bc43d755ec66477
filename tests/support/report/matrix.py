"""A run folder as guests and bridges leave it: 4 bridges × 3 loads, a stream each way, 3 times, made of numbers."""

from __future__ import annotations

import copy
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from latlab.analysis.evidence import Evidence
from latlab.analysis.summary import JudgedCell, summarise_cell
from latlab.analysis.trust import judge
from latlab.evaluation.run import judged_result
from latlab.recordings.run import RecordedRun
from latlab.recordings.run_folder import RunFolder

START_TAI_NS = 1_795_294_349_000_000_000
PERIOD_NS = 1_006_000
WARMUP = 100
COUNT = 1_500
BOUND_NS = 400
REPEATS = 3

TITLES = {"tap": "tap + kernel bridge", "macvtap": "macvtap", "xdp": "tap + XDP"}
BASE_NS = {"tap": 820_000, "macvtap": 640_000, "xdp": 410_000}
LOAD_FACTOR = {"none": 1.0, "load-down": 2.1, "load-up": 1.7}
LACKING = "vfio"
STREAMS = {"down": ("sensor", "vm1"), "up": ("vm1", "sensor")}


def write_matrix_run(path: Path) -> Path:
    """The run folder at `path`, with its result; its cells with bridge vfio are unavailable."""
    folder = RunFolder(path)
    runs = list(itertools.product((*TITLES, LACKING), LOAD_FACTOR, range(1, REPEATS + 1)))
    folder.write_run(
        RecordedRun.model_validate(
            {
                "format": "latlab.run/1",
                "run": path.name,
                "name": "bridges",
                "description": "Every virtual bridge, both directions, idle and under load",
                "seed": 7,
                "order": [{"slug": slug(bridge, load), "repeat": repeat} for bridge, load, repeat in runs],
                "versions": {"latlab": "0.1.0"},
                "started": "2026-11-21T20:51:52+00:00",
                "ended": "2026-11-21T21:22:41+00:00",
            }
        )
    )
    cells = [_cell(folder, order, *one) for order, one in enumerate(runs, start=1)]
    folder.write_result(judged_result(folder.run(), cells, {"down.counts.lost": 0}).document())
    folder.scenario_path.write_text("name: bridges\n")
    folder.plan_path.write_text("# on sensor\n")
    return path


def slug(bridge: str, load: str) -> str:
    return f"guests.vm1.bridge={bridge},loads={load}"


def cell_document(order: int, bridge: str, load: str, repeat: int) -> dict[str, Any]:
    """cell.json of an emulated guest behind a bridge, with one optional step that could not be done."""
    unavailable = bridge == LACKING
    lacking = {
        "what": "no IOMMU is in use: /sys/kernel/iommu_groups is empty or missing",
        "where": "guests.vm1.bridge: vfio",
        "remedy": "enable VT-d or AMD-Vi in the firmware, and boot the kernel with intel_iommu=on or amd_iommu=on",
    }
    carried = "packets carried by QEMU"
    shown = {
        "kind": bridge, "title": TITLES.get(bridge, ""), "host": "ecu", "uplink": "eth0", "guests": ["vm1"],
        "detail": f"eth0 native, ll12abt0 native; {carried}" if bridge == "xdp" else carried,
    }  # fmt: skip
    guest = {
        "name": "vm1", "host": "ecu", "image": "debian-rt", "kernel": "6.1.0-41-rt-amd64", "acceleration": "tcg",
        "vcpus": 1, "memory": 512 * 2**20, "started": "snapshot",
    }  # fmt: skip
    return {
        "format": "latlab.cell/1",
        "cell": {"guests.vm1.bridge": bridge, "loads": [load]},
        "slug": slug(bridge, load),
        "repeat": repeat,
        "order": order,
        "status": "unavailable" if unavailable else "ok",
        "reason": lacking if unavailable else None,
        "label": "measured" if unavailable else "functional only",
        "run_id": f"8f3c5e0d12ab{order:04x}",
        "start_tai_ns": 0 if unavailable else START_TAI_NS,
        "warmup_ns": WARMUP * PERIOD_NS,
        "duration_ns": COUNT * PERIOD_NS,
        "streams": [_stream(number, name, *ends) for number, (name, ends) in enumerate(STREAMS.items(), start=1)],
        "agents": [],
        "loads": [],
        "clocks": []
        if unavailable
        else [
            {"from": "sensor", "to": "ecu", "source": "one kernel", "lower_ns": 0, "upper_ns": 0, "windows": []},
            {"from": "ecu", "to": "vm1", "source": "shared page", "lower_ns": -400, "upper_ns": 400, "windows": []},
        ],
        "bridges": [] if unavailable else [shown],
        "guests": [] if unavailable else [guest],
        "steps": [] if unavailable else [_not_done()],
        "rechecks": [] if unavailable else [_changed(ok=bridge != "macvtap" or repeat != 2)],
    }


def packet_table(number: int, bridge: str, load: str, repeat: int) -> pl.DataFrame:
    """The packet table of one stream of one cell: each repetition has its own middle and spread."""
    rng = np.random.default_rng([number, repeat, *f"{bridge} {load}".encode()])
    launch = START_TAI_NS + np.arange(COUNT) * PERIOD_NS
    submit = launch + rng.gamma(4.0, 900.0, COUNT).astype(np.int64) + 900
    base = BASE_NS[bridge] * LOAD_FACTOR[load] * (1 + 0.07 * repeat + 0.1 * number)
    tail = (rng.random(COUNT) < 0.004) * rng.pareto(2.0, COUNT) * base
    receive = submit + 4_000 + (base + rng.gamma(5.0, base / 25, COUNT) + np.minimum(tail, 9e6)).astype(np.int64)
    none = pl.Series([None] * COUNT, dtype=pl.Int64)
    return pl.DataFrame(
        {
            "stream": pl.Series([number] * COUNT, dtype=pl.UInt16),
            "sequence": pl.Series(np.arange(COUNT), dtype=pl.UInt64),
            "launch_tai_ns": launch,
            "wake_due_tai_ns": launch,
            "wake_tai_ns": submit - 300,
            "submit_tai_ns": submit,
            "tx_sched_tai_ns": submit + 400,
            "tx_soft_tai_ns": submit + 900,
            "tx_hard_tai_ns": none,
            "rx_hard_tai_ns": none,
            "rx_soft_tai_ns": receive,
            "rx_user_tai_ns": receive + 5_000,
            "clock_bound_ns": pl.Series([BOUND_NS] * COUNT, dtype=pl.Int64),
            "arrival": pl.Series(np.arange(COUNT), dtype=pl.UInt64),
            "send_error": pl.Series([0] * COUNT, dtype=pl.Int32),
            "launch_error": pl.Series([0] * COUNT, dtype=pl.UInt8),
            "warmup": np.arange(COUNT) < WARMUP,
        }
    )


def _cell(run: RunFolder, order: int, bridge: str, load: str, repeat: int) -> JudgedCell:
    folder = run.add_cell(slug(bridge, load), repeat)
    folder.write_cell(json.loads(json.dumps(cell_document(order, bridge, load, repeat))))
    cell = folder.cell()
    packets = None
    if cell.status == "ok":
        packets = pl.concat(packet_table(stream.stream, bridge, load, repeat) for stream in cell.streams)
        packets.write_parquet(folder.packets_path)
    found = summarise_cell(cell, packets)
    return JudgedCell.of(found, judge(Evidence(cell, found.streams)))


def _stream(number: int, name: str, talker: str, listener: str) -> dict[str, Any]:
    return {
        "name": name, "stream": number, "talker": talker, "listener": listener, "interface": "eth0",
        "period_ns": PERIOD_NS, "offset_ns": 0, "size": 64, "count": COUNT, "priority": 7, "transport": "udp",
        "vlan": None, "launch_time": None, "start_tai_ns": START_TAI_NS,
    }  # fmt: skip


def _not_done() -> dict[str, Any]:
    return {
        "host": "ecu", "title": "give vm1's vCPU 0 SCHED_FIFO 1", "command": "chrt -f -p 1 4711", "seconds": 0.01,
        "expected": "SCHED_FIFO 1", "actual": None, "ok": False, "why": "failed: Operation not permitted",
    }  # fmt: skip


def _changed(*, ok: bool) -> dict[str, Any]:
    return {
        "host": "ecu", "title": "eth0's interrupts go to CPU 0", "command": "cat /proc/irq/24/smp_affinity_list",
        "expected": "0", "actual": "0" if ok else "0-1", "ok": ok,
    }  # fmt: skip


def with_a_watched_flow(result: dict[str, Any], stream: str) -> dict[str, Any]:
    """The result; beside the stream its packets were watched at a, b and c, and lost most time from a to b."""
    for cell in result["cells"]:
        block = cell.get("streams", {}).get(stream)
        if block is None:
            continue
        figures = copy.deepcopy(block["metrics"]["latency"])
        chain = figures["chain"]
        chain |= {"metric": "transit", "stops": list("abc"), "clocks": ["one clock"] * 2, "below_zero": [0, 0]}
        for part in (*chain["groups"], chain["median"], *chain["worst"]["each"]):
            part |= {"ns": [3, 1]} | ({"stops": None} if "stops" in part else {})
        grew = (("a", "b", 0.75), ("b", "c", 0.25))
        told = [{"from": first, "to": second, "packets": 1, "share": share} for first, second, share in grew]
        chain["worst"] |= {"grew": told}
        cell["streams"]["seen.a-to-c"] = copy.deepcopy(block) | {"metrics": {"transit": figures}}
    return result
