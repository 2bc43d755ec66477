"""The result document of docs/formats.md: every cell's counts and statistics, the verdict, the limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import polars as pl

from latlab.analysis.accept import evaluate
from latlab.analysis.counts import lost_after_warmup, refused_counts, reordered_sequences, stream_counts, stream_rows
from latlab.analysis.gate_port import Port
from latlab.analysis.losses import silent_drops
from latlab.analysis.metrics import BOUND, METRICS, Metric, Values, metric_values
from latlab.analysis.slots import gates_document
from latlab.analysis.statistics import statistics
from latlab.analysis.trust import NOTHING_MEASURED, Reason, verdict
from latlab.analysis.worst import EXPLAINED, worst_packet

RESULT_FORMAT: Final = "latlab.result/1"

_COPIED: Final = ("cell", "slug", "repeat", "order", "status", "reason", "label", "instructions_per_ns", "qemu")


def summarise_cell(cell: Mapping[str, Any], packets: pl.DataFrame | None, ports: Sequence[Port] = ()) -> dict[str, Any]:
    """The cell's part of the result document, from cell.json and the packet table (None: it has none).

    ports: those with a gate schedule.

    Its `verdict` is `trusted` and its `reasons` are empty until `with_reasons` adds what the trust checks
    found.
    """
    streams = {} if packets is None else {s["name"]: _stream(cell, s, packets, ports) for s in cell["streams"]}
    document = {name: cell.get(name) for name in _COPIED}
    return {
        **document,
        "verdict": verdict([]),
        "reasons": [],
        "loads": cell.get("loads", []),
        "refused": {
            agent["host"]: refused_counts(agent["done"])
            for agent in cell["agents"]
            if agent["verb"] == "listen" and agent.get("done")
        },
        "streams": streams,
    }


def with_reasons(document: Mapping[str, Any], reasons: Sequence[Reason]) -> dict[str, Any]:
    """The cell's document with these reasons and the verdict that follows from them."""
    return {**document, "verdict": verdict(reasons), "reasons": [asdict(reason) for reason in reasons]}


def result_document(
    run: Mapping[str, Any], cells: Sequence[Mapping[str, Any]], limits: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """The result document of a run: run.json, the cells' documents, and the `accept` limits {path: ns}.

    The cells' reasons are gathered at the top, `where` beginning with the cell they were found in; the
    verdict is the worst cell's, and `untrusted` where no cell has figures. `label` is the cells',
    all of them, where they differ.
    """
    reasons = [
        {**reason, "where": ": ".join(filter(None, (f"{cell['slug']}/r{cell['repeat']}", reason["where"])))}
        for cell in cells
        for reason in cell.get("reasons", [])
    ]
    if not any(cell["streams"] for cell in cells):
        reasons.append(asdict(NOTHING_MEASURED))
    labels = sorted({cell["label"] for cell in cells if cell.get("label")})
    return {
        "format": RESULT_FORMAT,
        "run": run["run"],
        "scenario": run["name"],
        "label": ", ".join(labels) if labels else None,
        "verdict": verdict(reasons),
        "reasons": reasons,
        "cells": [{key: value for key, value in cell.items() if key != "reasons"} for cell in cells],
        "accept": evaluate(limits or {}, cells),
    }


def uncorrected_uncertainty_ns(cell: Mapping[str, Any], talker: str, listener: str) -> int | None:
    """How far a difference of these two hosts' uncorrected clocks may be off, ± ns; None if nothing bounds it.

    For packet tables without `clock_bound_ns`, whose figures are not corrected by the offset: it is the larger end of
    the interval the offset lies in, of the entry of cell.json's `clocks` that names the two hosts in either direction.
    One host has one clock: 0.
    """
    if talker == listener:
        return 0
    bounds = [
        max(abs(clock["lower_ns"]), abs(clock["upper_ns"]))
        for clock in cell.get("clocks", [])
        if {clock["from"], clock["to"]} == {talker, listener}
    ]
    return min(bounds, default=None)


def _stream(
    cell: Mapping[str, Any], stream: Mapping[str, Any], packets: pl.DataFrame, ports: Sequence[Port]
) -> dict[str, Any]:
    rows = stream_rows(packets, stream["stream"])
    counts = stream_counts(rows, _listened(cell, stream["listener"]), stream["stream"])
    silent = silent_drops(rows) if stream["launch_time"] else None
    counts["launch_silent"] = silent.count if silent else 0
    shared = {
        "lost": lost_after_warmup(rows),
        "duplicated": counts["duplicated"],
        "reordered": int((reordered_sequences(rows) >= counts["warmup"]).sum()),
    }
    uncorrected = uncorrected_uncertainty_ns(cell, stream["talker"], stream["listener"])
    metrics = {
        metric.name: figures
        for metric in METRICS
        if (figures := _metric(rows, metric, stream["period_ns"], shared, uncorrected)) is not None
    }
    leaves = ((port, flow) for port in ports for flow in port.flows if flow.name == stream["name"])
    gates = next((gates_document(rows, port, flow, stream["period_ns"]) for port, flow in leaves), None)
    return {"counts": counts, "silent": asdict(silent) if silent else None, "gates": gates, "metrics": metrics}


def _metric(
    rows: pl.DataFrame,
    metric: Metric,
    period_ns: int,
    shared: Mapping[str, int],
    uncorrected_ns: int | None,
) -> dict[str, Any] | None:
    values = metric_values(rows, metric, period_ns)
    if values is None:
        return None
    found = asdict(statistics(values.value_ns, values.sequence))
    latest = found["max_sequence"] if metric.name in EXPLAINED else None
    return {
        "n": found.pop("n"),
        **shared,
        "missing": values.missing,
        "unbounded": values.unbounded,
        "from": values.from_,
        "to": values.to,
        "uncertainty_ns": _uncertainty_ns(rows, metric, values, uncorrected_ns),
        **found,
        **({} if latest is None else {"worst": worst_packet(rows, latest, values.to)}),
    }


def _uncertainty_ns(rows: pl.DataFrame, metric: Metric, values: Values, uncorrected_ns: int | None) -> int | None:
    """How far any of the metric's packets may be off, ± ns; None where nothing bounds one of them.

    A NIC's clock compared with another is bounded by nothing.
    """
    if values.from_ != values.to and "hard" in f"{values.from_} {values.to}":
        return None
    if not metric.crosses_hosts:
        return 0
    if BOUND not in rows.columns:
        return uncorrected_ns
    # A stream's rows are its sequences from 0. Where no packet came after the warm-up, those before tell the bound.
    arrived = rows["arrival"].is_not_null()
    bounds = rows[BOUND].gather(values.sequence) if len(values.sequence) else rows[BOUND].filter(arrived)
    return None if bounds.null_count() else int(bounds.max())  # type: ignore[arg-type]


def _listened(cell: Mapping[str, Any], host: str) -> Mapping[str, Any]:
    agents = (agent for agent in cell["agents"] if agent["host"] == host and agent["verb"] == "listen")
    return next((agent.get("done") or {} for agent in agents), {})
