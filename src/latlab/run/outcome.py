"""What is known of a cell so far: it becomes cell.json, whatever happens."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from latlab.model.errors import LabError, LatlabError
from latlab.model.labels import FUNCTIONAL, MEASURED
from latlab.model.part import Failure
from latlab.recordings.cell import (
    Bridge,
    ClockEdge,
    Guest,
    Load,
    RecordedCell,
    RecordedPort,
    RecordedStep,
    RecordedStream,
    WatchedFlow,
    WatchedKernel,
)
from latlab.recordings.run_folder import CELL_FORMAT
from latlab.run.agent import Agent
from latlab.run.beds import Perturbation
from latlab.run.entries import stream_entries
from latlab.run.probes import ToolMeasured, known_probes
from latlab.scenario import MatrixRun
from latlab.testbed.unavailable import summed_up


@dataclass
class Outcome:
    """What is known of a cell so far; becomes cell.json, whatever happens."""

    run: MatrixRun
    order: int
    run_id: str = field(default_factory=lambda: secrets.token_hex(8))
    live: bool = False
    """Whether it is shown live: its agents say more while they measure."""
    status: str = "running"
    reason: Failure | None = None
    label: str | None = MEASURED
    instructions_per_ns: int | None = None
    perturbation: Perturbation | None = field(init=False)
    qemu: str | None = None
    shared_bed: bool = False
    """Whether it went on from a test bed that was kept for several cells."""
    start_tai_ns: int = 0
    starts_tai_ns: dict[str, int] = field(default_factory=dict)
    agents: list[Agent] = field(default_factory=list)
    tools: dict[str, ToolMeasured] = field(default_factory=dict)
    loads: list[Load] = field(default_factory=list)
    clocks: list[ClockEdge] = field(default_factory=list)
    ptp: list[RecordedPort] = field(default_factory=list)
    bridges: list[Bridge] = field(default_factory=list)
    guests: list[Guest] = field(default_factory=list)
    drops: list[WatchedKernel] = field(default_factory=list)
    flows: list[WatchedFlow] = field(default_factory=list)
    flow_streams: list[RecordedStream] = field(default_factory=list)
    steps: list[RecordedStep] = field(default_factory=list)
    rechecks: list[RecordedStep] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.perturbation = None if self.run.seed is None else Perturbation.of(self.run.seed)

    def known(self) -> RecordedCell:
        """The cell.json of docs/reference/run-folder.md."""
        cell, scenario = self.run.cell, self.run.cell.scenario
        return RecordedCell(
            format=CELL_FORMAT,
            cell=cell.label,
            slug=cell.slug,
            repeat=self.run.repeat,
            order=self.order,
            status=self.status,
            reason=self.reason,
            label=self.label,
            instructions_per_ns=self.instructions_per_ns,
            seed=self.run.seed,
            qemu=self.qemu,
            shared_bed=self.shared_bed,
            trigger=scenario.trigger.text if scenario.trigger else None,
            run_id=self.run_id,
            start_tai_ns=self.start_tai_ns,
            warmup_ns=scenario.warmup,
            duration_ns=scenario.duration,
            streams=[
                *map(self._started, stream_entries(scenario)),
                *(one.stream for one in self.tools.values()),
                *self.flow_streams,
            ],
            probes=known_probes(scenario, self.agents, self.tools),
            agents=[agent.known for agent in self.agents],
            loads=self.loads,
            clocks=self.clocks,
            ptp=self.ptp,
            drops=self.drops,
            flows=self.flows,
            bridges=self.bridges,
            guests=self.guests,
            steps=self.steps,
            rechecks=self.rechecks,
        )

    def _started(self, entry: RecordedStream) -> RecordedStream:
        """A stream's entry with its start, on the clock of its talker; of both legs of a probe on that of who asks."""
        asks = entry.listener if entry.leg == "down" else entry.talker
        return entry.model_copy(update={"start_tai_ns": self.starts_tai_ns.get(asks, self.start_tai_ns)})

    def is_emulated(self) -> None:
        """Note that its figures say nothing about speed: with its own clock they show at least what differs."""
        if self.instructions_per_ns is None:
            self.label = FUNCTIONAL

    def refuse(self, reasons: list[LabError]) -> None:
        """Note that the cell cannot be built, for these reasons."""
        self.status, self.label, self.reason = "unavailable", None, Failure.of(summed_up(reasons))

    def fail(self, error: LatlabError) -> None:
        """Note that the cell has failed, and why. The first reason stays."""
        if self.reason is None:
            self.status, self.reason = "failed", Failure.of(error)
