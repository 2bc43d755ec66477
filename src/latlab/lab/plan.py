"""The whole set-up as text to read and to paste: every command, what must be read back, what undoes it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from latlab.host import Host
from latlab.lab import make_hosts, test_bed_steps
from latlab.lab.loads.base import LoadPlan
from latlab.lab.loads.table import LOADS
from latlab.lab.step import Argv, Step
from latlab.scenario import Scenario

READY_S = 1
START_IN_NS = 200_000_000
TAG = "RUN"
"""Stands for the run's tag: a plan printed before a run is the same each time."""


@dataclass(frozen=True)
class Command:
    """A process that runs while it is measured, on a host; note is what there is to know beside it.

    spec is for our agent: the JSON object it is told on its standard input. started: it waits for the start after
    that. seconds: how long it is needed; it ends when its standard input does.
    """

    host: str
    argv: Argv
    note: str = ""
    spec: Mapping[str, Any] | None = None
    started: bool = False
    seconds: int = 0


@dataclass(frozen=True)
class PlannedCell:
    """A cell to plan: its title, its own scenario, its loads, and the agents' commands in their order."""

    title: str
    scenario: Scenario
    loads: Sequence[LoadPlan] = ()
    agents: Sequence[Command] = ()


def plan_text(cells: Sequence[PlannedCell], tag: str = TAG) -> str:
    """Every command of the cells, host by host in the order they run, ready for a shell.

    What all cells have in common stands once, at the top; each cell then has what is its own.
    """
    beds = [_Bed(cell.scenario, tag) for cell in cells]
    common = [line for line in beds[0].keys if all(line in bed.keys for bed in beds)] if beds else []
    texts = ["#!/bin/sh -e"]
    if beds:
        texts += [_heading("The test bed"), *beds[0].set_up(common)]
    for cell, bed in zip(cells, beds, strict=True):
        own = [key for key in bed.keys if key not in common]
        texts += [_heading(f"Cell {cell.title}"), *bed.set_up(own)]
        texts += [bed.command(command) for command in (*_load_commands(cell.loads), *cell.agents)]
        texts.append("wait")
        texts += bed.tear_down(own, "Undo what is this cell's own")
    if beds:
        texts += beds[0].tear_down(common, "Undo the test bed")
    return "\n".join(texts) + "\n"


class _Bed:
    """A scenario's steps, each by the text that stands for it: two steps with the same text are one."""

    def __init__(self, scenario: Scenario, tag: str) -> None:
        self._hosts: Mapping[str, Host] = make_hosts(scenario, tag)
        self._steps = {self._text(step): step for step in test_bed_steps(scenario, tag)}
        self.keys = list(self._steps)

    def set_up(self, keys: Iterable[str]) -> list[str]:
        """The texts of the steps, with a line where the host changes."""
        lines = []
        host = ""
        for key in keys:
            step = self._steps[key]
            if step.host != host:
                host = step.host
                lines.append(f"\n## on {host}")
            lines.append(key)
        return lines

    def tear_down(self, keys: Sequence[str], title: str) -> list[str]:
        """What undoes the steps, last first; nothing when no step of them has an undo."""
        undone = [self._steps[key] for key in reversed(keys) if self._steps[key].undo]
        lines = [f"{self._line(step.host, step.undo or ())}  # {step.title}" for step in undone]
        return [_heading(title), *lines] if lines else []

    def command(self, command: Command) -> str:
        """A command that runs in the background while it is measured, its note above it.

        One that is told a spec gets it through a pipe that stays open as long as it is to run, and its start with it.
        """
        note = f"# {command.host}: {command.note}" if command.note else f"# {command.host}"
        line = self._line(command.host, command.argv)
        if command.spec is None:
            return f"{note}\n{line} &"
        words = [f"echo {shlex.quote(json.dumps(command.spec))}"]
        if command.started:
            words.append(f"sleep {READY_S}; echo {shlex.quote(json.dumps({'start_in_ns': START_IN_NS}))}")
        words.append(f"sleep {command.seconds}")
        return f"{note}\n{{ {'; '.join(words)}; }} | {line} &"

    def _text(self, step: Step) -> str:
        lines = [f"# {step.title}"]
        if step.before:
            lines.append(f"{self._line(step.host, step.before.argv)}  # note it: the undo needs it")
        if step.do:
            lines.append(self._line(step.host, step.do))
        if step.check:
            lines.append(f"{self._line(step.host, step.check.argv)}  # expect: {step.check.expected}")
        return "\n".join(lines)

    def _line(self, host: str, argv: Argv) -> str:
        return self._hosts[host].command_line(argv)


def _load_commands(loads: Sequence[LoadPlan]) -> list[Command]:
    return [
        Command(
            process.host,
            process.argv,
            f"{process.role} of load {load.name}",
            process.spec,
            started=process.role == "source",
            seconds=load.seconds,
        )
        for load in loads
        for process in LOADS[load.kind].processes(load)
    ]


def _heading(title: str) -> str:
    return f"\n# ---- {title} ----"
