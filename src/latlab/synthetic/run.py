"""A synthetic run as a run folder: what `latlab report` reads, with the truth next to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Final

import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
from pyarrow import ipc

from latlab.analysis.counts import reordered_sequences
from latlab.model.clock_sources import EXCHANGE, ONE_KERNEL
from latlab.model.facts import Facts
from latlab.model.labels import SYNTHETIC
from latlab.model.timestamps import STAMPS
from latlab.model.units import MICROSECOND_NS
from latlab.recordings.arrow import FORMAT, SCHEMAS
from latlab.recordings.cell import (
    ClockEdge,
    ClockWindow,
    Ready,
    RecordedAgent,
    RecordedCell,
    RecordedPort,
    RecordedStream,
    StreamTotals,
    Totals,
)
from latlab.recordings.run import RUN_FORMAT, OrderedCell, RecordedRun, RunVersions
from latlab.recordings.run_folder import CellFolder, RunFolder, write_json
from latlab.synthetic.generate import STREAM, Synthetic

SLUG: Final = "all"
TALKER, LISTENER, PORT = "sensor", "ecu", "eth0"
STARTED: Final = "2026-01-01T00:00:00+00:00"
_PTP_LIMIT_NS: Final = MICROSECOND_NS


def write_run(synthetic: Synthetic, folder: Path) -> Path:
    """The run folder, which is made at `folder`: run.json, scenario.yaml, plan.txt and one cell.

    The cell has cell.json, packets.parquet, the facts that report throttling, the recording of PTP if there is one,
    and what no real run has: description.json and truth.json, what was made and what is the matter with which packets,
    and truth.parquet, by sequence: `class` (a code of docs/reference/anomaly-classes.md) and `excused`. It
    has no result: `latlab report` makes it. OSError: `folder` is there already, or cannot be written.
    """
    folder.mkdir(parents=True)
    fill_run(synthetic, RunFolder(folder), SYNTHETIC, STARTED)
    return folder


def fill_run(synthetic: Synthetic, run: RunFolder, name: str, started: str | None) -> None:
    """Write into the run folder, which is there and empty, all that `write_run` says.

    name: of the run, as run.json and its page have it. started: when it was made, UTC, ISO 8601.
    """
    description = synthetic.description
    run.write_run(
        RecordedRun(
            format=RUN_FORMAT,
            run=run.id,
            name=name,
            description="generated from a description, not measured",
            seed=description.seed,
            order=[OrderedCell(slug=SLUG, repeat=1)],
            versions=RunVersions(),
            started=started,
            ended=started,
            status="ended",
            exit_status=0,
        )
    )
    run.scenario_path.write_text(_scenario(synthetic), encoding="utf-8")
    run.plan_path.write_text("# a synthetic run: no command ran on any host\n", encoding="utf-8")
    cell = run.add_cell(SLUG, 1)
    cell.write_cell(_cell(synthetic))
    synthetic.packets.write_parquet(cell.packets_path, compression="zstd", compression_level=1)
    for when in ("before", "after"):
        cell.write_facts(when, _facts(synthetic, when))
    if synthetic.ptp is not None:
        _write_ptp(cell, synthetic.ptp, _run_id(synthetic))
    _write_truth(cell, synthetic)


def _run_id(synthetic: Synthetic) -> str:
    return f"{synthetic.description.seed:016x}"


def _span_ns(synthetic: Synthetic) -> int:
    return synthetic.description.packets * synthetic.description.period_ns


def _scenario(synthetic: Synthetic) -> str:
    """What a run like it would be asked for with."""
    description, gates = synthetic.description, synthetic.description.gates
    lines = [
        f"name: {SYNTHETIC}",
        "description: made by latlab.synthetic, not measured",
        "hosts:",
        f"  {TALKER}: {{kind: netns}}",
        f"  {LISTENER}: {{kind: netns}}",
        "links:",
        f"  - {{ends: [{TALKER}.{PORT}, {LISTENER}.{PORT}]}}",
        "streams:",
        f"  control: {{talker: {TALKER}, listener: {LISTENER}, period: {description.period_ns}ns, size: 64B}}",
    ]
    if gates is not None and gates.schedule_known:
        opened = f"{{open: [0], for: {gates.open_ns}ns}}, {{open: [], for: {gates.cycle_ns - gates.open_ns}ns}}"
        shaper = f"{{kind: taprio, mode: software, speed: 1Gbit/s, shift: {gates.shift_ns}ns, gates: [{opened}]}}"
        lines += ["shapers:", f"  {TALKER}.{PORT}: {shaper}"]
    lines += [f"duration: {_span_ns(synthetic)}ns", f"warmup: {description.warmup * description.period_ns}ns"]
    return "\n".join(lines) + "\n"


def _cell(synthetic: Synthetic) -> RecordedCell:
    description = synthetic.description
    sent, received = description.packets, synthetic.packets["arrival"].count()
    stream = RecordedStream(
        name="control", stream=STREAM, talker=TALKER, listener=LISTENER, interface=PORT, port=PORT,
        period_ns=description.period_ns, offset_ns=0, size=64, count=sent, priority=0, transport="udp", vlan=None,
        launch_time=None, start_tai_ns=description.start_tai_ns,
    )  # fmt: skip
    stamped = {one.name: sent if one.by == "kernel" else 0 for one in STAMPS}
    talked = StreamTotals(stream=STREAM, sent=sent, send_errors=0, **stamped)
    reordered = len(reordered_sequences(synthetic.packets))
    heard = StreamTotals(
        stream=STREAM, received=received, repeated=synthetic.duplicated, out_of_range=0, reordered=reordered
    )
    agents = [
        RecordedAgent(host=host, verb=verb, ready=Ready(), done=Totals(streams=[totals], ring_full=0), error=None)
        for host, verb, totals in ((TALKER, "talk", talked), (LISTENER, "listen", heard))
    ]
    return RecordedCell(
        format="latlab.cell/1", cell={}, slug=SLUG, repeat=1, order=1, status="ok", reason=None, label=SYNTHETIC,
        instructions_per_ns=None, qemu=None, run_id=_run_id(synthetic), start_tai_ns=description.start_tai_ns,
        warmup_ns=description.warmup * description.period_ns, duration_ns=_span_ns(synthetic), streams=[stream],
        agents=agents, loads=[], clocks=list(_clocks(synthetic)), ptp=list(_ptp_ports(synthetic)), bridges=[],
        guests=[], steps=[], rechecks=[],
    )  # fmt: skip


def _clocks(synthetic: Synthetic) -> Iterator[ClockEdge]:
    """What compares the two hosts' clocks; and what compares their cards', whose timestamps are not corrected by it."""
    bound = synthetic.description.clock_bound_ns
    if bound is not None:
        source = (ONE_KERNEL if bound == 0 else EXCHANGE).name
        yield ClockEdge(from_=TALKER, to=LISTENER, source=source, lower_ns=-bound, upper_ns=bound, windows=[])
    if synthetic.description.hardware and synthetic.clocks is not None and synthetic.clocks.height > 1:
        yield _cards(synthetic.clocks)


def _cards(clocks: pl.DataFrame) -> ClockEdge:
    """The comparison of the two cards' clocks over time; between two looks it goes as fast as it ever does."""
    at, lower, upper = (clocks[name].to_list() for name in ("at_tai_ns", "lower_ns", "upper_ns"))
    apart = at[1] - at[0]
    fastest = max(abs(after - before) for before, after in pairwise(lower)) / apart * 1e9
    windows = [
        ClockWindow(
            reference_tai_ns=instant, lower_ns=low, upper_ns=high, span_ns=apart,
            drift_lower_ppb=-fastest, drift_upper_ppb=fastest,
        )
        for instant, low, high in zip(at, lower, upper, strict=True)
    ]  # fmt: skip
    return ClockEdge(
        from_=f"{TALKER}.{PORT}", to=f"{LISTENER}.{PORT}", source=EXCHANGE.name,
        lower_ns=min(lower), upper_ns=max(upper), windows=windows,
    )  # fmt: skip


def _ptp_ports(synthetic: Synthetic) -> Iterator[RecordedPort]:
    if synthetic.ptp is not None:
        yield RecordedPort(
            port=f"{LISTENER}.{PORT}", role="slave", profile="automotive", timestamps="hardware", clock=None,
            free_running=False, limit_ns=_PTP_LIMIT_NS, master=f"{TALKER}.{PORT}",
        )  # fmt: skip


def _facts(synthetic: Synthetic, when: str) -> Facts:
    throttled = int(synthetic.throttled and when == "after")
    scheduler = {"rt_runtime_us": 950_000, "rt_period_us": 1_000_000, "rt_throttled_count": throttled}
    return {host: {"scheduler": scheduler} for host in (TALKER, LISTENER)}


def _write_ptp(cell: CellFolder, rows: pl.DataFrame, run_id: str) -> None:
    said = {"latlab.format": FORMAT, "latlab.table": "ptp", "latlab.run_id": run_id, "latlab.agent": SYNTHETIC}
    schema = SCHEMAS["ptp"].with_metadata(said)
    table = rows.select(schema.names).to_arrow().cast(SCHEMAS["ptp"])
    path = cell.recording("ptp", f"{LISTENER}.{PORT}", "ptp")
    with pa.OSFile(str(path), "wb") as file, ipc.new_stream(file, schema) as stream:
        stream.write_table(table.replace_schema_metadata(said))


def _write_truth(cell: CellFolder, synthetic: Synthetic) -> None:
    truth = synthetic.truth
    description = asdict(synthetic.description)
    kinds = [type(one).__name__ for one in synthetic.description.ingredients]
    description["ingredients"] = [
        {"kind": kind, **values} for kind, values in zip(kinds, description["ingredients"], strict=True)
    ]
    write_json(cell.path / "description.json", description)
    document = {
        "packet_limit_ns": truth.packet_limit_ns,
        "level_limit_ns": truth.level_limit_ns,
        "shift_limit_ns": truth.shift_limit_ns,
        "episodes": [asdict(one) for one in truth.episodes],
        "periods": [{"class": name, "every_ns": every} for name, every in truth.periods],
    }
    write_json(cell.path / "truth.json", document)
    table = pl.DataFrame({"class": truth.class_of, "excused": truth.excused}).with_row_index("sequence")
    table.write_parquet(cell.path / "truth.parquet", compression="zstd")
