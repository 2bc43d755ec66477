"""The result document of docs/reference/result.md: every cell's counts and statistics, the verdict, the limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import polars as pl

from latlab.analysis.anomalies import Anomalies, anomalies_document
from latlab.analysis.buckets import buckets
from latlab.analysis.cell_anomalies import cell_anomalies
from latlab.analysis.chain import CHAINED, CHAINED_TRIPS, chain_of_metric
from latlab.analysis.chosen_windows import Chosen, chosen_documents
from latlab.analysis.confidence import confidence_document
from latlab.analysis.counts import (
    leg_counts,
    lost_after_warmup,
    refused_counts,
    reordered_sequences,
    send_errnos,
    stream_rows,
)
from latlab.analysis.gate_port import Port
from latlab.analysis.losses import silent_drops
from latlab.analysis.metrics import BOUND, METRICS, PROBE_METRICS, Metric, Values, metric_values, none_arrived
from latlab.analysis.pooled import BUCKETS
from latlab.analysis.round_trip import probe_counts, round_trips, with_every_launch
from latlab.analysis.slots import gates_document
from latlab.analysis.statistics import statistics
from latlab.analysis.tail import tail_document
from latlab.analysis.timers import TIMED, timer_counts, timer_worst, traced_by, windows_of
from latlab.analysis.trust import NOTHING_MEASURED, Reason, verdict
from latlab.analysis.trust_readings import RECEIVING
from latlab.analysis.unstamped import unstamped_documents
from latlab.analysis.variation import variation_document
from latlab.analysis.windows import clean_windows, windows_document
from latlab.analysis.worst import EXPLAINED, worst_packet
from latlab.recordings.cell import RecordedAgent, RecordedCell, RecordedStream

RESULT_FORMAT: Final = "latlab.result/1"

WORST_TOLD: Final = 10
"""Of the worst packets that a chain counts, so many stand in the result one by one."""

_COPIED: Final = (
    *("cell", "slug", "repeat", "order", "status", "reason", "label", "instructions_per_ns", "qemu", "start_tai_ns"),
)


def summarise_cell(
    cell: RecordedCell,
    packets: pl.DataFrame | None,
    ports: Sequence[Port] = (),
    anomalies: Mapping[str, Anomalies] | None = None,
    chosen: Sequence[Chosen] = (),
) -> dict[str, Any]:
    """The cell's part of the result document, from cell.json and the packet table (None: it has none).

    ports: those with a gate schedule. anomalies: {stream: what was found}; None: looked for here, by the packets alone.
    chosen: windows that somebody has named.

    Its `verdict` is `trusted` and its `reasons` are empty until `with_reasons` adds what the trust checks
    found.
    """
    streams = {}
    if packets is not None:
        found = cell_anomalies(cell, packets, ports) if anomalies is None else anomalies
        streams = dict(_blocks(cell, packets, ports, found, chosen))
    copied = cell.model_dump(mode="json", include=set(_COPIED), exclude_unset=True)
    return {
        **dict.fromkeys(_COPIED),
        **copied,
        "verdict": verdict([]),
        "reasons": [],
        "loads": [load.document() for load in cell.loads],
        "refused": {
            _receiver(agent): refused_counts(agent.done)
            for agent in cell.agents
            if agent.verb in RECEIVING and agent.done
        },
        "talkers": [
            {
                "host": agent.host,
                "packets": sum(one.sent or 0 for one in agent.done.streams or ()),
                "cpu_ns": agent.done.cpu_ns,
                "wakeups": agent.done.wakeups,
            }
            for agent in cell.agents
            if agent.verb == "talk" and agent.done and agent.done.cpu_ns is not None
        ],
        "streams": streams,
    }


def with_reasons(document: Mapping[str, Any], reasons: Sequence[Reason]) -> dict[str, Any]:
    """The cell's document with these reasons and the verdict that follows from them."""
    return {**document, "verdict": verdict(reasons), "reasons": [reason.as_dict() for reason in reasons]}


def result_document(run: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The result document of a run, of run.json and the cells' documents; no limit of `accept` is judged.

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
        reasons.append(NOTHING_MEASURED.as_dict())
    labels = sorted({cell["label"] for cell in cells if cell.get("label")})
    return {
        "format": RESULT_FORMAT,
        "run": run["run"],
        "scenario": run["name"],
        "label": ", ".join(labels) if labels else None,
        "verdict": verdict(reasons),
        "reasons": reasons,
        "cells": [{key: value for key, value in cell.items() if key != "reasons"} for cell in cells],
        "accept": [],
    }


def uncorrected_uncertainty_ns(cell: RecordedCell, talker: str, listener: str) -> int | None:
    """How far a difference of these two hosts' uncorrected clocks may be off, ± ns; None if nothing bounds it.

    For packet tables without `clock_bound_ns`, whose figures are not corrected by the offset: it is the larger end of
    the interval the offset lies in, of the entry of cell.json's `clocks` that names the two hosts in either direction.
    One host has one clock: 0.
    """
    if talker == listener:
        return 0
    bounds = [
        max(abs(clock.lower_ns or 0), abs(clock.upper_ns or 0))
        for clock in cell.clocks
        if {clock.from_, clock.to} == {talker, listener}
    ]
    return min(bounds, default=None)


def _blocks(
    cell: RecordedCell,
    packets: pl.DataFrame,
    ports: Sequence[Port],
    anomalies: Mapping[str, Anomalies],
    chosen: Sequence[Chosen],
) -> Iterator[tuple[str, dict[str, Any]]]:
    """What is said of each stream, by its name; of a probe before its legs, under the probe's own."""
    for stream in cell.streams:
        if stream.tool:
            continue  # what a tool measured is reported with its own words
        if stream.timer is not None:
            yield stream.name, timer_document(cell, stream, packets)
            continue
        if stream.probe and stream.leg == "up":
            yield stream.probe, probe_document(cell, stream.probe, packets)
        yield stream.name, _stream(cell, stream, packets, ports, anomalies.get(stream.name), chosen)


def probe_document(cell: RecordedCell, probe: str, packets: pl.DataFrame) -> dict[str, Any]:
    """What is said of a probe as a whole, as of a stream: its counts, and its round trips on the clock of who asks."""
    legs = {stream.leg: stream for stream in cell.streams if stream.probe == probe}
    up, down = (stream_rows(packets, legs[leg].stream) for leg in ("up", "down"))
    trips = round_trips(up, down)
    timeout_ns = next((one.timeout_ns for one in cell.probes if one.name == probe), None)
    counts = probe_counts(trips, leg_counts(cell, legs["up"], up), leg_counts(cell, legs["down"], down), timeout_ns)
    shared = {
        "lost": lost_after_warmup(trips),
        "duplicated": counts["duplicated"],
        "reordered": counts["reordered"],
    }
    metrics = {
        metric.name: figures
        for metric in PROBE_METRICS
        if (figures := _metric(trips, metric, legs["up"].period_ns, shared, 0)) is not None
    }
    return {
        "counts": counts,
        "silent": None,
        "gates": None,
        "anomalies": None,
        "late_limits": None,
        "windows": None,
        "metrics": metrics,
    }


def timer_document(cell: RecordedCell, stream: RecordedStream, packets: pl.DataFrame) -> dict[str, Any]:
    """What is said of a timer, as of a stream; and as `timer` how late it was in each window."""
    rows = stream_rows(packets, stream.stream)
    counts = timer_counts(stream, rows)
    shared = {"lost": counts["unrecorded"], "duplicated": 0, "reordered": 0}
    metrics = {
        metric.name: figures
        for metric in TIMED
        if (figures := _metric(rows, metric, stream.period_ns, shared, 0)) is not None
    }
    if (wakeup := metrics.get("wakeup")) and wakeup["max_sequence"] is not None:
        wakeup["worst"] = timer_worst(rows, wakeup["max_sequence"])
    return {
        "counts": counts,
        "silent": None,
        "gates": None,
        "anomalies": None,
        "windows": None,
        "timer": windows_of(stream, rows, cell.start_of(stream)) | traced_by(cell, stream.probe or stream.name),
        "metrics": metrics,
    }


def _stream(
    cell: RecordedCell,
    stream: RecordedStream,
    packets: pl.DataFrame,
    ports: Sequence[Port],
    anomalies: Anomalies | None,
    chosen: Sequence[Chosen],
) -> dict[str, Any]:
    rows = stream_rows(packets, stream.stream)
    counts = leg_counts(cell, stream, rows)
    silent = silent_drops(rows) if stream.launch_time else None
    counts["launch_silent"] = silent.count if silent else 0
    shared = {
        "lost": lost_after_warmup(rows),
        "duplicated": counts["duplicated"],
        "reordered": int((reordered_sequences(rows) >= counts["warmup"]).sum()),
    }
    uncorrected = uncorrected_uncertainty_ns(cell, stream.talker, stream.listener)
    metrics = {
        metric.name: figures
        for metric in METRICS
        if (figures := _metric(rows, metric, stream.period_ns, shared, uncorrected)) is not None
    }
    leaves = ((port, flow) for port in ports for flow in port.flows if flow.name == stream.name)
    port, flow = next(leaves, (None, None))
    gates = gates_document(rows, port, flow, stream.period_ns or 0) if port and flow else None
    return {
        "counts": counts,
        "send_errnos": send_errnos(rows),
        "silent": asdict(silent) if silent else None,
        "unstamped": unstamped_documents(rows),
        "gates": gates,
        **_happened(cell, stream, rows, anomalies, chosen),
        "metrics": metrics,
    }


def _happened(
    cell: RecordedCell,
    stream: RecordedStream,
    rows: pl.DataFrame,
    anomalies: Anomalies | None,
    chosen: Sequence[Chosen],
) -> dict[str, Any]:
    """Anomalies, what they were compared with, and the clean windows next to the whole run; none where nothing was
    looked for.
    """
    if anomalies is None:
        return {"anomalies": None, "late_limits": None, "windows": None}
    rows = with_every_launch(rows)
    start_ns = cell.start_of(stream)
    named = [one for one in chosen if one.is_of(stream.name)]
    return {
        "anomalies": anomalies_document(anomalies),
        "late_limits": anomalies.limits.document() if anomalies.limits else None,
        "windows": {
            **windows_document(rows, clean_windows(rows, anomalies), stream.period_ns or 0),
            "chosen": chosen_documents(rows, anomalies, start_ns, stream.period_ns or 0, named),
        },
    }


def _metric(
    rows: pl.DataFrame,
    metric: Metric,
    period_ns: int | None,
    shared: Mapping[str, int],
    uncorrected_ns: int | None,
) -> dict[str, Any] | None:
    """One metric's entry; None if the stream has no such timestamps. Where none of the packets that were sent arrived,
    its latencies are there anyway, of no packet: what was lost must not go with the figures.
    """
    values = metric_values(rows, metric, period_ns)
    if values is None and metric.name in EXPLAINED and shared["lost"] and not rows["arrival"].count():
        values = none_arrived(metric)
    if values is None:
        return None
    figures = statistics(values.value_ns, values.sequence)
    found = asdict(figures)
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
        "max_at_least": values.max_at_least,
        "max_at_most": None if values.max_at_least is None else values.beyond.at_most_ns,
        **({} if latest is None else {"worst": worst_packet(rows, latest, values.to)}),
        "confidence": confidence_document(values.value_ns, figures),
        **(_beyond(values) if metric.name in EXPLAINED else {}),
        **_chain(rows, values),
        BUCKETS: buckets(values.value_ns).as_result().model_dump(),
    }


def _beyond(values: Values) -> dict[str, Any]:
    """What is said of a latency next to its statistics: its tail beyond the sample, or why not, and its variation."""
    return {
        "tail": tail_document(values.value_ns),
        "variation": variation_document(values.sequence, values.value_ns),
    }


def _chain(rows: pl.DataFrame, values: Values) -> dict[str, Any]:
    """{"chain": …}, with as many of the worst packets as are told one by one; nothing where a metric has no way."""
    found = chain_of_metric(rows, values) if values.metric.name in (*CHAINED, *CHAINED_TRIPS) else None
    if found is None:
        return {}
    if worst := found.worst:
        found = found.model_copy(update={"worst": worst.model_copy(update={"each": worst.each[:WORST_TOLD]})})
    return {"chain": found.document()}


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
    if bounds.is_empty():
        return uncorrected_ns
    return None if bounds.null_count() else int(bounds.max())  # type: ignore[arg-type]


def _receiver(agent: RecordedAgent) -> str:
    """Who received: a host's listener, or one of a probe's two agents."""
    return f"{agent.host} ({agent.verb} {agent.probe})" if agent.probe else str(agent.host)
