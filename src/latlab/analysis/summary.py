"""The result document of docs/reference/result.md: every cell's counts and statistics, the verdict, the limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypedDict, Unpack, cast

import polars as pl

from latlab.analysis.anomalies import Anomalies, by_class
from latlab.analysis.buckets import buckets
from latlab.analysis.cell_anomalies import cell_anomalies
from latlab.analysis.chain import CHAINED, CHAINED_TRIPS, WORST_TOLD, chain_of_metric
from latlab.analysis.confidence import confidence_of
from latlab.analysis.counts import (
    leg_counts,
    lost_after_warmup,
    refused_counts,
    reordered_sequences,
    send_errnos,
    silent_drops,
    stream_rows,
    watched_losses,
)
from latlab.analysis.described import clock_source, probe_of, sent_as
from latlab.analysis.evidence import RECEIVING
from latlab.analysis.gate_port import GatePort, gates_of
from latlab.analysis.hops import WatchedPackets
from latlab.analysis.imported import no_counts, packet_anomalies, packet_figures, summed_up
from latlab.analysis.metrics import BOUND, Values, metric_values, none_arrived, unstamped_of, variation_of
from latlab.analysis.statistics import statistics
from latlab.analysis.tail import tail_of
from latlab.analysis.timers import timer_counts, timer_figures
from latlab.analysis.trust import NOTHING_MEASURED
from latlab.analysis.way import (
    EXPLAINED,
    ONE_CLOCK,
    probe_counts,
    round_trips,
    with_every_launch,
    worst_instant,
    worst_packet,
)
from latlab.analysis.windows import Named, chosen_of, clean_windows, windows_of
from latlab.model.metrics import METRICS, PROBE_METRICS, TIMED, MetricKind
from latlab.model.part import Status
from latlab.model.reasons import Reason, verdict
from latlab.recordings.cell import DropsReady, Programs, RecordedAgent, RecordedCell, RecordedStream
from latlab.recordings.run import RecordedRun
from latlab.result.types import (
    Cell,
    Chain,
    DropsWatched,
    FlowWatched,
    Gates,
    Imported,
    Metric,
    PtpPort,
    Result,
    Silent,
    StampsTaken,
    Stream,
    StreamFound,
    Talker,
    Windows,
)

RESULT_FORMAT: Final = "latlab.result/1"


class CellFound(TypedDict, total=False):
    """What of a cell only some kinds have: what is not given is not in the result."""

    ptp: list[PtpPort]
    imported: Imported


class _Missed(NamedTuple):
    """Packets after the warm-up that no value is of, or more than one, or one that came late."""

    lost: int
    duplicated: int
    reordered: int


class _Known(NamedTuple):
    """What is known of a stream, or of a probe as a whole, before its packets are looked at."""

    talker: str
    listener: str
    clock: str | None
    sent_as: str | None
    start_tai_ns: int | None
    flow: str | None = None
    points: Sequence[str] = ()


def summarise_cell(
    cell: RecordedCell,
    packets: pl.DataFrame | None,
    ports: Sequence[GatePort] = (),
    anomalies: Mapping[str, Anomalies] | None = None,
    chosen: Sequence[Named] = (),
) -> Cell:
    """The cell's part of the result, from cell.json and the packet table (None: it has none).

    ports: those with a gate schedule. anomalies: {stream: what was found}; None: looked for here, by the packets alone.
    chosen: user-defined windows. Its verdict is `trusted` until it is judged.
    """
    if packets is None:
        return cell_of(cell, {})
    found = cell_anomalies(cell, packets, ports) if anomalies is None else anomalies
    return cell_of(cell, dict(_streams(cell, packets, ports, found, chosen)))


def cell_of(cell: RecordedCell, streams: dict[str, Stream], **found: Unpack[CellFound]) -> Cell:
    """The cell with these streams. One of which nothing was measured has no label: there is nothing that it would be
    the label of.
    """
    return Cell(
        cell=cell.cell,
        slug=cell.slug,
        repeat=cell.repeat,
        order=cell.order,
        # As cell.json has it; another one than these is refused here.
        status=cast(Status, cell.status),
        reason=cell.reason,
        instructions_per_ns=cell.instructions_per_ns,
        qemu=cell.qemu,
        start_tai_ns=cell.start_tai_ns,
        label=cell.label if streams else None,
        verdict=verdict([]),
        loads=cell.loads,
        refused={
            _receiver(agent): refused_counts(agent.done)
            for agent in cell.agents
            if agent.verb in RECEIVING and agent.done
        },
        talkers=[
            Talker(
                host=agent.host,
                packets=sum(one.sent or 0 for one in agent.done.streams or ()),
                cpu_ns=agent.done.cpu_ns,
                wakeups=agent.done.wakeups or 0,
            )
            for agent in cell.agents
            if agent.verb == "talk" and agent.done and agent.done.cpu_ns is not None
        ],
        streams=streams,
        bridges=cell.bridges,
        guests=cell.guests,
        stamps_by=list(_stamps_taken(cell)),
        drops_watched=list(_drops_watched(cell)),
        flows=list(_flows_watched(cell)),
        **found,
    )


def _stamps_taken(cell: RecordedCell) -> Iterator[StampsTaken]:
    """Who took the kernel's timestamps for each agent, in its own words."""
    for agent in cell.agents:
        if found := agent.said.stamps_by:
            programs = agent.totals.stages or Programs()
            said = {"agent": agent.name, **found, "lost": programs.lost, "compared": programs.compared}
            yield StampsTaken.model_validate(said)


def _drops_watched(cell: RecordedCell) -> Iterator[DropsWatched]:
    """Every kernel of a cell and how far its drops were recorded."""
    for kernel in cell.drops or []:
        found, done = kernel.said.drops or DropsReady(), kernel.done
        missing = [*found.missing]
        missing += [kernel.why_not] if kernel.why_not else []
        missing += [kernel.error.what] if kernel.error else []
        yield DropsWatched(
            host=kernel.host,
            hosts=kernel.hosts,
            watched=found.watched,
            reasons=found.reasons,
            drops=done.drops if done else None,
            unrecorded=(done.lost or 0) + done.ring_full if done else None,
            missing=missing,
        )


def _flows_watched(cell: RecordedCell) -> Iterator[FlowWatched]:
    """Every flow of a cell that was watched, and what is to be known of it."""
    for flow in cell.flows:
        yield FlowWatched(
            name=flow.name,
            flow=flow.flow,
            hosts=[kernel.host for kernel in flow.kernels],
            packets=flow.packets,
            notes=flow.notes,
            left_out=flow.left_out,
            flights=flow.flights,
        )


@dataclass(frozen=True)
class JudgedCell:
    """A cell of the result, why it is not trusted, and what rules that are turned off found."""

    cell: Cell
    reasons: Sequence[Reason] = ()
    waived: Sequence[Reason] = ()

    @classmethod
    def of(cls, cell: Cell, reasons: Sequence[Reason], waived: Sequence[Reason] = ()) -> JudgedCell:
        """The cell with these reasons and the verdict that follows from them."""
        return cls(cell.judged(verdict(reasons)), reasons, waived)

    def placed(self, reasons: Sequence[Reason]) -> Iterator[Reason]:
        """Reasons whose `where` begins with the cell."""
        for one in reasons:
            yield one.within(self.cell.key)


def result_of(run: RecordedRun, cells: Sequence[JudgedCell]) -> Result:
    """The result of a run, of run.json and its cells; no limit of `accept` is judged.

    The cells' reasons are gathered at the top, `where` beginning with the cell they were found in; the
    verdict is the worst cell's, and `untrusted` where no cell has figures. `label` is the cells',
    all of them, where they differ.
    """
    reasons = [reason for one in cells for reason in one.placed(one.reasons)]
    if not any(one.cell.streams for one in cells):
        reasons.append(NOTHING_MEASURED)
    labels = sorted({one.cell.label for one in cells if one.cell.label})
    return Result(
        format=RESULT_FORMAT,
        run=run.run,
        scenario=run.name,
        label=", ".join(labels) if labels else None,
        verdict=verdict(reasons),
        reasons=reasons,
        cells=[one.cell for one in cells],
        accept=[],
    )


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


def _streams(
    cell: RecordedCell,
    packets: pl.DataFrame,
    ports: Sequence[GatePort],
    anomalies: Mapping[str, Anomalies],
    chosen: Sequence[Named],
) -> Iterator[tuple[str, Stream]]:
    """Each stream, by its name; of a probe before its legs, under the probe's own. What tools measured comes last."""
    for stream in cell.streams:
        if stream.tool:
            continue
        if stream.timer is not None:
            yield stream.name, _timer(cell, stream, packets)
            continue
        if stream.probe and stream.leg == "up":
            yield stream.probe, _probe(cell, stream.probe, packets)
        yield stream.name, _stream(cell, stream, packets, ports, anomalies.get(stream.name), chosen)
    for stream in cell.streams:
        if stream.tool:
            yield stream.name, _of_tool(cell, stream, packets)


def stream_of(
    cell: RecordedCell,
    name: str,
    counts: Mapping[str, int | None],
    metrics: Mapping[str, Metric],
    *,
    silent: Silent | None = None,
    gates: Gates | None = None,
    **found: Unpack[StreamFound],
) -> Stream:
    """A stream, or a probe as a whole, which has the clock of who asks: what is known of it, and what was found."""
    known = _known(cell, name)
    return Stream(
        talker=known.talker,
        listener=known.listener,
        clock=known.clock,
        sent_as=known.sent_as,
        start_tai_ns=known.start_tai_ns,
        probe=probe_of(cell, name),
        flow=known.flow,
        points=list(known.points),
        counts=dict(counts),
        silent=silent,
        gates=gates,
        metrics=dict(metrics),
        **found,
    ).without_empty("probe", "flow", "points")


def _known(cell: RecordedCell, name: str) -> _Known:
    for probe in cell.probes:
        if probe.name == name:
            return _Known(probe.from_, probe.to, ONE_CLOCK, None, cell.start_tai_ns)
    stream = next(one for one in cell.streams if one.name == name)
    return _Known(
        stream.talker,
        stream.listener,
        clock_source(cell.clocks, stream.talker, stream.listener),
        sent_as(stream),
        stream.start_tai_ns or cell.start_tai_ns,
        stream.flow,
        stream.points,
    )


def _probe(cell: RecordedCell, probe: str, packets: pl.DataFrame) -> Stream:
    """A probe as a whole: its counts, and its round trips on the clock of who asks."""
    legs = {stream.leg: stream for stream in cell.streams if stream.probe == probe}
    up, down = (stream_rows(packets, legs[leg].stream) for leg in ("up", "down"))
    trips = round_trips(up, down)
    timeout_ns = next((one.timeout_ns for one in cell.probes if one.name == probe), None)
    counts = probe_counts(trips, leg_counts(cell, legs["up"], up), leg_counts(cell, legs["down"], down), timeout_ns)
    missed = _Missed(lost_after_warmup(trips), counts["duplicated"], counts["reordered"])
    metrics = _metrics(trips, PROBE_METRICS, legs["up"].period_ns, missed, 0)
    return stream_of(cell, probe, counts, metrics, anomalies=None, late_limits=None, windows=None)


def _timer(cell: RecordedCell, stream: RecordedStream, packets: pl.DataFrame) -> Stream:
    """A timer, as a stream; and as `timer` how late it was in each window."""
    rows = stream_rows(packets, stream.stream)
    counts = timer_counts(stream, rows)
    missed = _Missed(counts["unrecorded"], duplicated=0, reordered=0)
    metrics = _metrics(rows, TIMED, stream.period_ns, missed, 0)
    if (wakeup := metrics.get("wakeup")) and wakeup.max_sequence is not None:
        metrics["wakeup"] = wakeup.with_worst(worst_instant(rows, wakeup.max_sequence))
    timer = timer_figures(cell, stream, rows)
    return stream_of(cell, stream.name, counts, metrics, anomalies=None, windows=None, timer=timer)


def _of_tool(cell: RecordedCell, stream: RecordedStream, packets: pl.DataFrame) -> Stream:
    """A tool's stream, or one of packets that were watched, as any other; what is not known of it is None."""
    anomalies = limits = None
    if stream.stream:
        counts, metrics = packet_figures(
            stream, packets, _bound_ns(stream, packets), WatchedPackets(cell.streams, packets)
        )
        if stream.flow:
            anomalies, limits = packet_anomalies(stream, packets)
    else:
        probe = next(one for one in cell.probes if one.name == stream.probe)
        counts, metrics = no_counts(), dict[str, Metric]()
        for one in probe.tool.figures if probe.tool else ():
            intervals = pl.DataFrame([vars(interval) for interval in one.intervals]) if one.intervals else None
            metrics[one.metric] = summed_up(one, None, intervals, None)
    return stream_of(
        cell,
        stream.name,
        counts,
        metrics,
        losses=watched_losses(stream),
        anomalies=anomalies,
        late_limits=limits,
        windows=None,
    )


def _bound_ns(stream: RecordedStream, packets: pl.DataFrame) -> int | None:
    """By how much packets that were watched on two clocks may be off, ±; None where nothing says it."""
    if not stream.flow:
        return None
    bounds = stream_rows(packets, stream.stream)[BOUND].drop_nulls()
    return None if bounds.is_empty() else int(bounds.max())  # type: ignore[arg-type]


def _stream(
    cell: RecordedCell,
    stream: RecordedStream,
    packets: pl.DataFrame,
    ports: Sequence[GatePort],
    anomalies: Anomalies | None,
    chosen: Sequence[Named],
) -> Stream:
    rows = stream_rows(packets, stream.stream)
    counts = leg_counts(cell, stream, rows)
    silent = silent_drops(rows) if stream.launch_time else None
    counts["launch_silent"] = silent.count if silent else 0
    missed = _Missed(
        lost=lost_after_warmup(rows),
        duplicated=counts["duplicated"],
        reordered=int((reordered_sequences(rows) >= int(rows["warmup"].sum())).sum()),
    )
    leaves = ((port, flow) for port in ports for flow in port.flows if flow.name == stream.name)
    port, flow = next(leaves, (None, None))
    uncorrected = uncorrected_uncertainty_ns(cell, stream.talker, stream.listener)
    return stream_of(
        cell,
        stream.name,
        counts,
        _metrics(rows, METRICS, stream.period_ns, missed, uncorrected),
        send_errnos=send_errnos(rows),
        silent=silent,
        unstamped=unstamped_of(rows),
        gates=gates_of(rows, port, flow, stream.period_ns or 0) if port and flow else None,
        anomalies=by_class(anomalies) if anomalies else None,
        late_limits=anomalies.limits if anomalies else None,
        windows=_windows(cell, stream, rows, anomalies, chosen) if anomalies else None,
    )


def _windows(
    cell: RecordedCell,
    stream: RecordedStream,
    rows: pl.DataFrame,
    anomalies: Anomalies,
    chosen: Sequence[Named],
) -> Windows:
    """The clean windows next to the whole run, and user-defined ones."""
    rows, period_ns = with_every_launch(rows), stream.period_ns or 0
    named = [one for one in chosen if one.is_of(stream.name)]
    found = chosen_of(rows, anomalies, cell.start_of(stream), period_ns, named)
    return windows_of(rows, clean_windows(rows, anomalies), period_ns, found)


def _metrics(
    rows: pl.DataFrame,
    metrics: Iterable[MetricKind],
    period_ns: int | None,
    missed: _Missed,
    uncorrected_ns: int | None,
) -> dict[str, Metric]:
    """Those of these metrics that a stream has the timestamps of."""
    every = ((one.name, _metric(rows, one, period_ns, missed, uncorrected_ns)) for one in metrics)
    return {name: found for name, found in every if found is not None}


def _metric(
    rows: pl.DataFrame,
    metric: MetricKind,
    period_ns: int | None,
    missed: _Missed,
    uncorrected_ns: int | None,
) -> Metric | None:
    """One metric; None if the stream has no such timestamps. Where none of the packets that were sent arrived,
    its latencies are there anyway, of no packet: what was lost must not go with the figures.
    """
    values = metric_values(rows, metric, period_ns)
    if values is None and metric.name in EXPLAINED and missed.lost and not rows["arrival"].count():
        values = none_arrived(metric)
    if values is None:
        return None
    figures = statistics(values.value_ns, values.sequence)
    explained, worst = metric.name in EXPLAINED, figures.max_sequence
    made = Metric(
        **vars(figures),
        lost=missed.lost,
        duplicated=missed.duplicated,
        reordered=missed.reordered,
        missing=values.missing,
        unbounded=values.unbounded,
        from_=values.from_,
        to=values.to,
        uncertainty_ns=_uncertainty_ns(rows, metric, values, uncorrected_ns),
        max_at_least=values.max_at_least,
        max_at_most=None if values.max_at_least is None else values.beyond.at_most_ns,
        confidence=confidence_of(values.value_ns, figures),
        buckets=buckets(values.value_ns).as_result(),
        worst=worst_packet(rows, worst, values.to) if explained and worst is not None else None,
        tail=tail_of(values.value_ns) if explained else None,
        variation=variation_of(values.sequence, values.value_ns) if explained else None,
        chain=_chain(rows, values),
    )
    return made.without_empty("worst", "chain", *(() if explained else ("tail", "variation")))


def _chain(rows: pl.DataFrame, values: Values) -> Chain | None:
    """With as many of the worst packets as are listed one by one; None where a metric has no path."""
    has_path = values.metric.name in (*CHAINED, *CHAINED_TRIPS)
    return chain_of_metric(rows, values, listed=WORST_TOLD) if has_path else None


def _uncertainty_ns(rows: pl.DataFrame, metric: MetricKind, values: Values, uncorrected_ns: int | None) -> int | None:
    """How far any of the metric's packets may be off, ± ns; None where nothing bounds one of them.

    A NIC's clock compared with another is bounded by nothing. A period is measured by one clock, that of a NIC or of
    the listener; moved onto the talker's, the first packet and each other one may be off by their bounds.
    """
    if "hard" in f"{values.from_} {values.to}":
        return 0 if metric.periodic else None
    if not metric.crosses_hosts:
        return 0
    if BOUND not in rows.columns:
        return 0 if metric.periodic else uncorrected_ns
    # A stream's rows are its sequences from 0. Where no packet came after the warm-up, those before give the bound.
    arrived = rows["arrival"].is_not_null()
    bounds = rows[BOUND].gather(values.sequence) if len(values.sequence) else rows[BOUND].filter(arrived)
    if bounds.is_empty():
        return uncorrected_ns
    if bounds.null_count():
        return None
    return int(bounds.max()) + (int(bounds[0]) if metric.periodic else 0)  # type: ignore[arg-type]


def _receiver(agent: RecordedAgent) -> str:
    """Who received: a host's listener, or one of a probe's two agents."""
    return f"{agent.host} ({agent.verb} {agent.probe})" if agent.probe else str(agent.host)
