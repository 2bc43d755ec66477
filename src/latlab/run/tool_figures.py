"""What a tool's words become: a stream of packets in cell.json and the packet table, or figures that it kept itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import polars as pl

from latlab.imports import cyclictest, ddsperf, rtla, sockperf
from latlab.imports.base import Figures, Given, Imported, PacketStream
from latlab.imports.netperf import read_round_trips
from latlab.imports.packets import packet_table
from latlab.imports.percentiles import with_percentiles
from latlab.imports.write import figures_entry, packets_entry, summed_entry
from latlab.model.errors import LabError, LatlabError
from latlab.recordings.cell import RecordedStream, ToolFound
from latlab.recordings.run_folder import CellFolder, publishing
from latlab.testbed.probes.base import ToolPlan
from latlab.testbed.probes.ddsperf import measured
from latlab.testbed.probes.netperf import require_paced
from latlab.testbed.probes.runner import ToolRan


@dataclass(frozen=True)
class ToolMeasured:
    """What a tool adds to its entry of `probes` in cell.json, and its stream in `streams`."""

    version: str
    commands: list[str]
    found: ToolFound
    stream: RecordedStream


def tool_figures(ran: ToolRan, number: int, log: Path, folder: CellFolder) -> ToolMeasured:
    """The same, and the rows of the packet table that it has, in the cell's folder.

    number: the stream's. log: what the client wrote, here. LabError: its words are not those that are known.
    """
    plan = ran.plan
    try:
        found = READERS[plan.kind](ran, log)
        figures = [_of_probe(plan, one) for one in found.figures]
    except LabError:
        raise
    except (ValueError, LatlabError) as error:
        what = error.what if isinstance(error, LatlabError) else str(error)
        raise LabError(
            f"what {plan.kind} {ran.version} measured cannot be read: {what}",
            where=f"probes.{plan.name}",
            remedy=f"see {log.name} in the cell's folder; another version of {plan.kind} may print something else",
        ) from None
    kept = ToolFound(
        latency=found.latency,
        notes=list(found.notes),
        left_out=list(found.left_out),
        problems=[one.as_dict() for one in found.problems],
        facts=dict(found.facts),
        figures=[figures_entry(one).model_copy(update={"intervals": list(one.intervals)}) for one in figures],
    )
    if found.streams:
        stream = _named(plan, found.streams[0])
        with publishing(folder.tool_packets_path(plan.name)) as temporary:
            rows = packet_table([stream]).with_columns(pl.lit(number, pl.UInt16).alias("stream"))
            rows.write_parquet(temporary, compression="zstd", compression_level=1)
        entry = packets_entry(number, stream)
    else:
        entry = summed_entry(figures[0])
    own = {"size": plan.size, "probe": plan.name, "leg": None, "tool": plan.kind}
    return ToolMeasured(ran.version, list(ran.commands), kept, entry.model_copy(update=own))


def _ddsperf(ran: ToolRan, _: Path) -> Imported:
    plan = ran.plan
    told = measured(plan, ran.output.stdout, ran.output.stderr)
    return ddsperf.round_trips(told, plan.name, plan.asker, plan.answerer, ran.version)


def _netperf(ran: ToolRan, _: Path) -> Imported:
    plan, printed = ran.plan, ran.output.stdout
    require_paced(plan, printed)
    paced = plan.period_ns is not None
    return read_round_trips(printed, plan.name, plan.asker, plan.answerer, ran.version, paced=paced)


def _sockperf(_: ToolRan, log: Path) -> Imported:
    return sockperf.read([log], Given())


def _cyclictest(_: ToolRan, log: Path) -> Imported:
    found = _of_one_thread(cyclictest.read_json([log], Given()))
    if any(one.tally is None for one in found.figures):
        raise ValueError("it should have printed a histogram, but printed none in a known format")
    return found


def _timerlat(_: ToolRan, log: Path) -> Imported:
    return _of_one_thread(rtla.read([log], Given()))


READERS: Final[Mapping[str, Callable[[ToolRan, Path], Imported]]] = {
    "ddsperf": _ddsperf,
    "netperf": _netperf,
    "sockperf": _sockperf,
    "cyclictest": _cyclictest,
    "timerlat": _timerlat,
}
"""{kind: how what it measured is read}, of each of `probes.table.TOOLS`."""


def _of_one_thread(found: Imported) -> Imported:
    of_threads = {one.stream for one in found.figures}
    if len(of_threads) > 1:
        raise ValueError(f"it measured {len(of_threads)} threads ({', '.join(sorted(of_threads))}) instead of one")
    return found


def _of_probe(plan: ToolPlan, figures: Figures) -> Figures:
    """The figures under the probe's name, with its hosts."""
    return replace(with_percentiles(figures), stream=plan.name, talker=plan.asker, listener=plan.answerer)


def _named(plan: ToolPlan, stream: PacketStream) -> PacketStream:
    """The stream under the probe's name, with its hosts; a period that was asked for is its own, else the usual gap."""
    period_ns = plan.period_ns or stream.period_ns
    described = f"{plan.asker} → {plan.answerer} → {plan.asker} · {plan.kind} · {plan.size} bytes · {plan.transport}"
    return replace(
        stream,
        name=plan.name,
        talker=plan.asker,
        listener=plan.answerer,
        described=described,
        period_ns=period_ns,
    )
