"""Run folders of a few figures each, to be compared: no packets, only what a result says of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from latlab.analysis.statistics import NAMES
from latlab.evaluation.comparison.cells import cell_comparisons
from latlab.recordings.run_folder import RunFolder
from latlab.result.store import typed

US = 1_000
STREAM: dict[str, Any] = {
    "name": "control", "stream": 1, "talker": "sensor", "listener": "ecu", "interface": "eth0", "period_ns": 1_006_000,
    "offset_ns": 0, "size": 64, "count": 1_000, "priority": 7, "transport": "udp", "vlan": None, "launch_time": None,
}  # fmt: skip
NOT_KNOWN = ("start_tai_ns", "silent", "gates")
FACTS: dict[str, Any] = {
    "kernel": {"release": "6.12.1-rt", "boot_id": "a"},
    "cpu": {"cpus": {"0": {"governor": "performance", "idle_ns": 7}}},
}


def figures(p50: float, **others: float | None) -> dict[str, Any]:
    """One metric's figures in a result: every statistic is made of its median, in µs, unless it is given."""
    made = {"p50": p50, "mean": p50 + 1, "p99_9": p50 + 20, "max": p50 + 40, "stddev": p50 / 10} | others
    return {
        **dict.fromkeys(NAMES), "n": 900, "lost": 0, "duplicated": 0, "reordered": 0, "missing": 0, "unbounded": 0,
        "from": "launch", "to": "rx_soft", "uncertainty_ns": 0,
        **{name: None if value is None else round(value * US) for name, value in made.items()},
    }  # fmt: skip


def write_figures_run(
    path: Path,
    medians: Mapping[str, Sequence[float | None]],
    *,
    key: str = "bridge",
    label: str = "measured",
    labels: Mapping[str, str] | None = None,
    verdict: str = "trusted",
    metric: Mapping[str, Any] | None = None,
    stream: Mapping[str, Any] | None = None,
    streams: Mapping[str, Mapping[str, Any]] | None = None,
    facts: Mapping[str, Any] | None = None,
    version: str = "0.2.0",
    duration_ns: int = 1_000_000_000,
    accept: Sequence[Mapping[str, Any]] = (),
    lost: Mapping[str, Sequence[int]] | None = None,
) -> Path:
    """The run folder at `path`: {value of the matrix key: median latency of each repetition in µs; None: it failed}.

    lost: {value: of 1,000 packets, in each repetition}, none if it is not said.
    labels, streams: of single values. metric: what is otherwise in all figures, such as `to`. stream, facts: in all
    cells.
    """
    folder = RunFolder(path)
    path.mkdir()
    _write(
        path / "run.json",
        {"format": "latlab.run/1", "run": path.name, "name": "first", "versions": {"latlab": version}},
    )
    folder.scenario_path.write_text("name: first\n")
    cells: list[dict[str, Any]] = []
    for value, found in medians.items():
        for repeat, median in enumerate(found, start=1):
            slug = f"{key}={value}"
            cell = {
                "format": "latlab.cell/1", "cell": {key: value}, "slug": slug,
                "repeat": repeat, "order": len(cells) + 1,
                "status": "failed" if median is None else "ok", "label": (labels or {}).get(value, label),
                "reason": {"what": "no reply", "where": "ecu", "remedy": "look"} if median is None else None,
                "duration_ns": duration_ns, "warmup_ns": 0,
                "streams": [{**STREAM, **(stream or {}), **(streams or {}).get(value, {})}],
            }  # fmt: skip
            at = folder.add_cell(slug, repeat)
            _write(at.path / "cell.json", cell)
            for when in ("before", "after"):
                found_then = {"ecu": {**FACTS, **(facts or {}), "taken_tai_ns": len(cells)}}
                _write(at.path / f"facts-{when}.json", found_then)
            gone = (lost or {}).get(value, ())
            cells.append(_result_cell(cell, median, verdict, metric or {}, gone[repeat - 1] if gone else 0))
    _write(
        path / "result.json",
        {
            "format": "latlab.result/1", "run": path.name, "scenario": "first", "label": label, "verdict": verdict,
            "reasons": [], "cells": cells, "accept": list(accept),
        },
    )  # fmt: skip
    return path


def with_comparisons(result: Mapping[str, Any]) -> dict[str, Any]:
    """The result, and in it how its cells differ."""
    return {**result, "comparisons": [one.document() for one in cell_comparisons(typed(dict(result)))]}


def _write(path: Path, document: Mapping[str, Any]) -> None:
    """Not by way of the disk, as a run does: there are many of these folders."""
    path.write_text(json.dumps(document), encoding="utf-8")


def _result_cell(
    cell: Mapping[str, Any], median: float | None, verdict: str, metric: Mapping[str, Any], lost: int
) -> dict[str, Any]:
    counts = {"sent": 1_000, "lost": lost}
    block = {"talker": "sensor", "listener": "ecu", "clock": "one kernel", "counts": counts, **dict.fromkeys(NOT_KNOWN)}
    streams = {} if median is None else {"control": {**block, "metrics": {"latency": {**figures(median), **metric}}}}
    kept = {key: cell[key] for key in ("cell", "slug", "repeat", "order", "status", "reason", "label")}
    kept |= {"instructions_per_ns": None, "qemu": None, "start_tai_ns": None, "loads": [], "refused": {}}
    return {**kept, "label": kept["label"] if streams else None, "verdict": verdict, "streams": streams}
