"""What a cell would start, while no run has begun: pure, so that `plan` prints just what `run` starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from latlab.hosts import Host
from latlab.model.units import SECOND_NS
from latlab.recordings.run_folder import CellFolder
from latlab.run.agents import SpecInput, agents_of
from latlab.run.cell import load_duration_ns
from latlab.run.clock_legs import leg_specs, needed_legs
from latlab.run.clocks import planned_with_kvm_clock
from latlab.run.drops import drops_spec, drops_watched_on, kernels_watched
from latlab.run.flows import flow_kernels, flow_recording, keep_of, planned_point, planned_trigger
from latlab.run.specs import BedFacts, around_spec
from latlab.run.watching import watch_spec
from latlab.scenario import MatrixCell, Scenario
from latlab.scenario.watched import parse_flow
from latlab.testbed.bridges.joints import mac_of
from latlab.testbed.guests.qemu import acceleration
from latlab.testbed.guests.start import TAG, planned_site
from latlab.testbed.loads import plan_loads
from latlab.testbed.makers import make_hosts
from latlab.testbed.places import Places, find_places
from latlab.testbed.plan import Command, PlannedCell
from latlab.testbed.probes import plan_probes
from latlab.testbed.site import Site
from latlab.testbed.step import Spec
from latlab.testbed.unavailable import unavailable

ANY_RUN: Final = "0" * 16
"""The run id in a plan: a run has a random one."""
THREAD: Final = "TID"
"""Stands in a plan for the number of a thread."""


def planned_cell(cell: MatrixCell) -> PlannedCell:
    """What a run of the cell would start."""
    scenario = cell.scenario
    site = planned_site(scenario)
    hosts = make_hosts(scenario, site)
    places = find_places(scenario, site, hosts)
    by_kvm = {
        name
        for name, guest in scenario.guests.items()
        if acceleration(guest, site.on(scenario.machine_of(name)).machine) == "kvm"
    }
    at = BedFacts(
        {
            # The address of a NIC that is there is only known to the machine: it is named by what it is.
            str(end): mac_of(scenario, TAG, segment, end) or f"MAC of {end}"
            for segment in scenario.segments()
            for end in segment.members
        },
        places=places,
        emulated=frozenset(scenario.guests.keys() - by_kvm),
    )
    needed_ns = load_duration_ns(scenario)
    seconds = -(-needed_ns // SECOND_NS)

    def command(host: str, verb: str, does: str, spec: Spec, *, started: bool = False) -> Command:
        return Command(host, (places.agent(host), verb), does, spec, started=started, seconds=seconds)

    early, late = list[Command](), list[Command]()
    for one in agents_of(scenario, by_kvm):
        recording = CellFolder(Path()).prefix(one.role, one.name)
        spec = one.spec(scenario, SpecInput(at, ANY_RUN, recording, [THREAD] * one.threads))
        (early if one.is_early else late).append(command(one.host, one.verb, one.does, spec, started=one.started))
    watching = [command(*one) for one in _watching(scenario, hosts, places, at)]
    clocks = [command(*one) for one in _comparing(scenario, hosts, site)]
    reasons = tuple(str(reason) for reason in unavailable(scenario, site))
    loads, tools = plan_loads(scenario, needed_ns, places), plan_probes(scenario, places)
    return PlannedCell(cell.slug, scenario, site, loads, [*early, *watching, *late, *clocks], reasons, tools)


_Told = tuple[str, str, str, Spec]
"""A host, its agent's verb, what that does, and its spec."""


def _watching(scenario: Scenario, hosts: Mapping[str, Host], places: Places, at: BedFacts) -> Iterator[_Told]:
    """The agents that watch drops and flows."""
    for kernel in kernels_watched(scenario, hosts, at.emulated):
        if kernel.why_not is None:
            spec = drops_spec(scenario, ANY_RUN, f"drops-{kernel.watcher}")
            yield kernel.watcher, "drops", "watches where packets are dropped", spec
    for name, asked in scenario.watched.items():
        kernels = flow_kernels(scenario, hosts, asked)
        for host in kernels if asked.trigger else ():
            does = f"keeps what the kernel does around late packets of flow {name}"
            yield host, "trace", does, around_spec(ANY_RUN, flow_recording(name, host))
        for host, points in kernels.items():
            spec = watch_spec(
                ANY_RUN,
                flow_recording(name, host),
                [planned_point(scenario, places, point) for point in points],
                parse_flow(asked.match),
                keep_of(asked, drops=drops_watched_on(scenario, host, at.emulated)),
                planned_trigger(asked, points),
            )
            yield host, "watch", f"watches flow {name}", spec


def _comparing(scenario: Scenario, hosts: Mapping[str, Host], site: Site) -> Iterator[_Told]:
    """The agents that compare clocks."""
    for leg in needed_legs(scenario, site, hosts, planned_with_kvm_clock(scenario, site.machine, hosts)):
        if not leg.source.is_exact:
            recording = f"clock-{leg.here}-{leg.there}"
            for host, spec in leg_specs(scenario, site, leg, ANY_RUN, recording, "TAI offset of {}".format):
                yield host, "clock", "compares clocks", spec
