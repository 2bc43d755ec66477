"""The whole set-up as text to read and to paste: every command, what must be read back, what undoes it."""

from __future__ import annotations

import json
import re
import shlex
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from latlab.hosts import Host
from latlab.scenario import Scenario
from latlab.testbed.loads import LOADS
from latlab.testbed.loads.base import LoadPlan
from latlab.testbed.machines import machine_steps
from latlab.testbed.makers import make_hosts, test_bed_steps
from latlab.testbed.probes import TOOLS
from latlab.testbed.probes.base import SERVER_SPARE_S, ToolPlan
from latlab.testbed.site import Site
from latlab.testbed.step import Argv, Service, Spec, Step, former_value

READY_S = 1
START_IN_NS = 200_000_000
COUNTED = 'AGENTS="$AGENTS $!"'
LOGS = "LOGS"
SNAPSHOTS = """\
# A run boots a guest of an image once, keeps it (QMP migrate), and starts it with -incoming from then on:
# here it is booted every time."""
UNTIL_READY = """\
# until_ready SECONDS PID TITLE LOG EXPECTED COMMAND...: run COMMAND until it succeeds, while the process runs.
until_ready() {
    seconds=$1 pid=$2 title=$3 log=$4 expected=$5 end=$(($(date +%s) + $1 + 1))
    shift 5
    while left=$((end - $(date +%s))); do
        said=$(timeout "$((left > 1 ? left : 1))" "$@" 2>&1) && return
        kill -0 "$pid" 2>/dev/null || { echo "$title: it ended"; break; }
        [ "$left" -gt 1 ] || { echo "$title: '$*' expected '$expected' within $seconds s, actual '$said'"; break; }
        sleep 1
    done >&2
    echo "  the last lines of its log, $log:" >&2
    tail -n 12 "$log" >&2
    return 1
}"""
LONG = 400
IN_TURNS = """\
# A board in virtual time runs in lockstep with the lab, so its lines cannot be pasted: they only show what is done."""
FOLD = 100
"""A command longer than LONG is folded into lines of about FOLD characters."""
FORMER = re.compile(r"(?:^|=)\{([a-z_]+)\}$")
"""An argument, or its end, for which an undo command is given what stood before."""


@dataclass(frozen=True)
class Command:
    """A process that runs while it is measured, on a host; note is what there is to know next to it.

    spec is for our agent: the JSON object it gets on its standard input. started: it waits for the start after
    that. seconds: how long it is needed; it ends when its standard input does.
    """

    host: str
    argv: Argv
    note: str = ""
    spec: Spec | None = None
    started: bool = False
    seconds: int = 0


@dataclass(frozen=True)
class PlannedCell:
    """A cell to plan: its title, its own scenario and site, its loads, the agents' commands in their order, and every
    reason why this machine cannot build it."""

    title: str
    scenario: Scenario
    site: Site
    loads: Sequence[LoadPlan] = ()
    agents: Sequence[Command] = ()
    unavailable: Sequence[str] = ()
    tools: Sequence[ToolPlan] = ()


def plan_text(cells: Sequence[PlannedCell], problems: Sequence[str] = (), warned: Sequence[str] = ()) -> str:
    """Every command of the cells, host by host in the order they run, ready for a shell.

    A test bed that is the same for all cells stands once, at the top; else each cell makes and undoes its own.
    problems: what keeps the scenario from running here; warned: what keeps it from its end. Both are at the top.
    """
    beds = [_Bed(cell.scenario, cell.site) for cell in cells]
    common = beds[0].keys if beds and all(bed.keys == beds[0].keys for bed in beds) else []
    texts = ["#!/bin/sh -e", *(f"# this machine cannot run it yet: {problem}" for problem in problems)]
    texts += [f"# warning: {warning}" for warning in warned]
    if any(bed.has_services for bed in beds):
        texts += [SNAPSHOTS, f"mkdir -p {LOGS}", UNTIL_READY]
    if common:
        texts += [_heading("The test bed"), *beds[0].set_up(common)]
    for cell, bed in zip(cells, beds, strict=True):
        own = bed.keys[len(common) :]
        texts.append(_heading(f"Cell {cell.title}"))
        texts += [f"# this machine cannot build it: {reason}" for reason in cell.unavailable]
        texts += bed.set_up(own)
        commands = (*_load_commands(cell.loads), *_tool_commands(cell.tools), *cell.agents)
        texts += [bed.command(command) for command in commands]
        texts.append("wait $AGENTS; AGENTS=")
        texts += bed.tear_down(own, "Undo this cell's steps")
    if common:
        texts += beds[0].tear_down(common, "Undo the test bed")
    text = "\n".join(texts) + "\n"
    return _only_to_read(text) if any(cell.scenario.in_virtual_time for cell in cells) else text


def _only_to_read(text: str) -> str:
    """The plan as comments: what is to be done on a board in virtual time must not be done on this machine."""
    first, rest = text.split("\n", 1)
    return f"{first}\n{IN_TURNS}\n" + textwrap.indent(rest, "# ", lambda line: bool(line.strip()) and line[0] != "#")


class _Bed:
    """A scenario's steps, each by the text that stands for it: two steps with the same text are one."""

    def __init__(self, scenario: Scenario, site: Site) -> None:
        self._hosts: Mapping[str, Host] = make_hosts(scenario, site)
        self._notes: dict[tuple[str, Argv], int] = {}
        steps = (*machine_steps(scenario, site), *test_bed_steps(scenario, site))
        self._steps = {self._text(step): step for step in steps}
        self.keys = list(self._steps)
        self.has_services = any(isinstance(step, Service) for step in self._steps.values())

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
        lines = [line for key in reversed(keys) for line in self._undo(self._steps[key])]
        return [_heading(title), *lines] if lines else []

    def _undo(self, step: Step | Service) -> list[str]:
        if isinstance(step, Service):
            name = _variable(step)
            told = f'; kill "$TELLS_{name}"; rm {shlex.quote(_told(step))}' if step.spec is not None else ""
            return [f'kill "$PID_{name}"; wait "$PID_{name}" || true{told}  # {step.title}']
        if step.undo is None or self._hosts[step.host].fleeting:
            return []
        anyway = " || true" if step.optional else ""
        line = self._line(step.host, step.undo)
        for name, variable in self._former(step).items():
            # Within single quotes always, as no shell takes bare braces.
            line = line.replace(f"{{{name}}}", f"'\"${variable}\"'").replace(f"''\"${variable}\"''", f'"${variable}"')
        return [f"{line}{anyway}  # {step.title}"]

    def _former(self, step: Step) -> dict[str, str]:
        """{name: shell variable} of what the step's undo is given of what stood before."""
        if step.before is None or step.undo is None:
            return {}
        number = self._notes.setdefault((step.host, step.before.argv), len(self._notes) + 1)
        names = (found.group(1) for argument in step.undo if (found := FORMER.search(argument)))
        return {name: f"{name.upper()}_{number}" for name in names}

    def command(self, command: Command) -> str:
        """A command that runs in the background while it is measured, its note above it.

        An agent gets its spec through a pipe that stays open as long as it is to run, and its start with it.
        """
        note = f"# {command.host}: {command.note}" if command.note else f"# {command.host}"
        line = self._line(command.host, command.argv)
        if command.spec is None:
            return f"{note}\n{line} & {COUNTED}"
        words = [f"echo {shlex.quote(json.dumps(command.spec))}"]
        if command.started:
            words.append(f"sleep {READY_S}; echo {shlex.quote(json.dumps({'start_in_ns': START_IN_NS}))}")
        words.append(f"sleep {command.seconds}")
        return f"{note}\n{{ {'; '.join(words)}; }} | {line} & {COUNTED}"

    def _text(self, step: Step | Service) -> str:
        lines = [f"# {step.title}"]
        if isinstance(step, Service):
            return "\n".join([*lines, *self._service(step)])
        # What cannot be done is a finding there, and the rest continues.
        anyway = " || true" if step.optional else ""
        if step.before:
            line, variables = self._line(step.host, step.before.argv), " ".join(self._former(step).values())
            if step.before.read is former_value:
                lines.append(f"{variables}=$({line}){anyway}  # the undo needs it")
            else:
                lines.append(f"{line}{anyway}  # the undo needs these variables, set manually: {variables}")
        if step.do:
            lines.append(f"{self._line(step.host, step.do)}{anyway}")
        if step.check:
            read = self._line(step.check.at or step.host, step.check.argv)
            lines.append(f"{read}{anyway}  # expect: {step.check.expected}")
        return "\n".join(lines)

    def _service(self, service: Service) -> list[str]:
        """It runs in the background, its pid in a variable, until it is undone."""
        line, name = f"{self._line(service.host, service.argv)} >>{shlex.quote(service.log)} 2>&1", _variable(service)
        lines = []
        if service.spec is not None:
            # A named pipe, so that writer and reader are two processes, each with a pid to end it by.
            pipe, spec = shlex.quote(_told(service)), shlex.quote(json.dumps(service.spec))
            lines.append(f"mkfifo {pipe}; {{ echo {spec}; exec sleep infinity; }} >{pipe} & TELLS_{name}=$!")
            line += f" <{pipe}"
        lines.append(f"{line} & PID_{name}=$!")
        if service.ready:
            read = self._line(service.ready.at or service.host, service.ready.argv)
            seconds, expected = max(1, service.ready.within_ms // 1000), service.ready.expected
            said = shlex.join((service.title, service.log, expected))
            lines.append(f'until_ready {seconds} "$PID_{name}" {said} \\\n    {read}')
        return lines

    def _line(self, host: str, argv: Argv) -> str:
        return _folded(self._hosts[host].command(argv))


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


def _tool_commands(tools: Sequence[ToolPlan]) -> list[Command]:
    """A server for each, which `timeout` ends, and its client."""
    found = []
    for plan in tools:
        kind, client = TOOLS[plan.kind], TOOLS[plan.kind].client(plan)
        if kind.server is None:
            found.append(Command(client.host, client.argv, f"measures {plan.name}"))
            continue
        server = kind.server(plan)
        lasting = ("timeout", str(plan.seconds + SERVER_SPARE_S), *server.argv)
        found += [
            Command(server.host, lasting, f"answers {plan.name}"),
            Command(client.host, ("sh", "-c", 'sleep 2; exec "$@"', "sh", *client.argv), f"asks {plan.name}"),
        ]
    return found


def _folded(argv: Sequence[str]) -> str:
    """The command for a shell; a long one is split, option by option, into lines."""
    line = shlex.join(argv)
    if len(line) <= LONG:
        return line
    words = [shlex.quote(word) for word in argv]
    lines = [words[0]]
    for word in words[1:]:
        if word.startswith("-") and len(lines[-1]) + len(word) > FOLD:
            lines.append(word)
        else:
            lines[-1] += f" {word}"
    return " \\\n    ".join(lines)


def _variable(service: Service) -> str:
    """The end of the name of a shell variable that holds a pid of a service."""
    return re.sub(r"[^A-Za-z0-9]+", "_", service.title).strip("_")


def _told(service: Service) -> str:
    """The named pipe through which a service gets its spec."""
    return f"{service.log.removesuffix('.log')}.told"


def _heading(title: str) -> str:
    return f"\n# ---- {title} ----"
