"""What will make a measurement suspect, as far as the scenario and this machine show before anything is run.

The rules are those that judge the measurement: they are compared with what is known by now, and what is not known yet
breaks none of them.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace

from latlab.analysis.evidence import Evidence
from latlab.analysis.trust import judge, without_waived
from latlab.evaluation.thresholds import thresholds_of
from latlab.model.errors import LatlabError
from latlab.model.facts import Facts
from latlab.model.labels import MEASURED
from latlab.model.reasons import Reason
from latlab.recordings.cell import Guest, Ready, RecordedAgent, RecordedCell, RecordedRealtime
from latlab.run.entries import stream_entries
from latlab.run.probe_specs import pings
from latlab.run.specs import listeners, talkers
from latlab.scenario import Loaded, Scenario
from latlab.testbed.agent_binary import find_agent
from latlab.testbed.guests.qemu import acceleration
from latlab.testbed.machine import Machine

_FACTS_S = 10


def facts_of_this_machine() -> Facts:
    """What the agent reports of this machine now; empty if it cannot be run: preflight reports why."""
    try:
        said = subprocess.run([find_agent(), "facts"], capture_output=True, timeout=_FACTS_S, check=True).stdout
        found: Facts = json.loads(said)
    except (LatlabError, OSError, subprocess.SubprocessError, ValueError):
        return {}
    return found


def foreseen(loaded: Loaded, machine: Machine, facts: Facts) -> list[Reason]:
    """The reasons that this machine's facts are known to give, those of rules that are turned off left out, each once.

    Hosts on other machines, and guests' own kernels, are not asked.
    """
    trust = loaded.scenario.trust
    found: dict[Reason, None] = {}
    for cell in loaded.combinations:
        evidence = replace(_planned(cell.scenario, machine, facts), thresholds=thresholds_of(trust))
        counts, _ = without_waived(judge(evidence), trust.off)
        found |= dict.fromkeys(counts)
    return list(found)


def as_line(reason: Reason) -> str:
    """A reason in one line: what, its id, where, what was found, what to do."""
    where = f"{reason.where}: " if reason.where else ""
    return f"{reason.finding} ({reason.id}): {where}{reason.actual} ({reason.remedy})"


def _planned(scenario: Scenario, machine: Machine, facts: Facts) -> Evidence:
    """The evidence of a cell that has not been run: its streams, its agents as they are to run, facts of hosts here."""
    here = [name for name in scenario.hosts if scenario.machine_of(name) is None]
    guests = [
        Guest(
            name=name,
            host=guest.host,
            image=None,
            kernel=None,
            acceleration=None if guest.domain else acceleration(guest, machine),
            vcpus=guest.vcpus,
            memory=guest.memory,
            started="",
        )
        for name, guest in scenario.guests.items()
    ]
    emulated = any(one.acceleration == "tcg" for one in guests) or any(
        host.is_emulated for host in scenario.hosts.values()
    )
    agents = [
        _agent(host, "talk", scenario.tuning_of(host).talker.cpus, facts) for host in talkers(scenario) if host in here
    ]
    agents += [
        _agent(host, "listen", scenario.tuning_of(host).listener.cpus, facts)
        for host in listeners(scenario)
        if host in here
    ]
    for name in pings(scenario):
        asks, answers = scenario.probe_hosts(name)
        both = (
            ("ping", asks, scenario.tuning_of(asks).talker),
            ("pong", answers, scenario.tuning_of(answers).listener),
        )
        agents += [_agent(host, verb, tuning.cpus, facts, name) for verb, host, tuning in both if host in here]
    for name in scenario.timers:
        (host,) = scenario.probe_hosts(name)
        if host in here:
            agents.append(_agent(host, "timer", scenario.tuning_of(host).talker.cpus, facts, name))
    label = None if emulated else MEASURED
    return Evidence(
        cell=RecordedCell(
            slug="",
            repeat=1,
            status="planned",
            label=label,
            streams=stream_entries(scenario),
            agents=agents,
            guests=guests,
        ),
        facts_before={host: _facts(scenario, host, facts) for host in here} if facts else {},
    )


def _agent(host: str, verb: str, cpus: tuple[int, ...] | None, facts: Facts, probe: str | None = None) -> RecordedAgent:
    """An agent as it is to run: on the CPUs that the scenario says, else on all that programs may use here."""
    used = list(cpus) if cpus else (facts.get("agent") or {}).get("cpus")
    return RecordedAgent(host=host, verb=verb, probe=probe, ready=Ready(realtime=RecordedRealtime(cpus=used)))


def _facts(scenario: Scenario, host: str, facts: Facts) -> Facts:
    """This machine's facts as the host's; of interfaces only cables' ends, without what a test bed sets up on them."""
    ends = {end.interface for link in scenario.links for end in link.ends if end.host == host}
    is_local = scenario.hosts[host].is_here
    interfaces = {
        name: {key: value for key, value in one.items() if key != "qdiscs"}
        for name, one in (facts.get("interfaces") or {}).items()
        if is_local and name in ends
    }
    return {**facts, "interfaces": interfaces}
