"""What shapes the traffic that leaves an interface, as steps: queues, the qdisc at the root, those beneath, read back.

A kind of shaper is one file and one line in KINDS. All run in the host that has the interface, once everything else
stands: a bridge that takes a card may give it its queues again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from latlab.scenario import End, Scenario
from latlab.scenario.guests import becomes_the_guests
from latlab.scenario.parts import parse_end
from latlab.scenario.shapers import Classes
from latlab.testbed.shapers.base import Kind, Place
from latlab.testbed.shapers.leaves import CbsKind, EtfKind, TbfKind
from latlab.testbed.shapers.mqprio import MqprioKind
from latlab.testbed.shapers.queues import queue_steps
from latlab.testbed.shapers.root import free_root
from latlab.testbed.shapers.taprio import TaprioKind
from latlab.testbed.site import Site
from latlab.testbed.step import Step

KINDS: Mapping[str, Kind] = {
    "taprio": TaprioKind(),
    "mqprio": MqprioKind(),
    "etf": EtfKind(),
    "cbs": CbsKind(),
    "tbf": TbfKind(),
}


def transmit_queue_steps(scenario: Scenario, site: Site) -> Iterator[Step]:
    """Each shaper's interface has the transmit queues it needs. A card may set its clock again when it gets others."""
    for name, shaper in scenario.shapers.items():
        if isinstance(shaper, Classes):
            yield from queue_steps(scenario, _place(scenario, site, name), sum(shaper.queue_counts))


def shaper_steps(scenario: Scenario, site: Site) -> Iterator[Step]:
    """The steps for each shaper, in the scenario's order."""
    for name, shaper in scenario.shapers.items():
        place = _place(scenario, site, name)
        yield free_root(place)
        for step in KINDS[shaper.kind].steps(shaper, place):
            # What is set in a guest ends with it.
            yield step if place.end.host in scenario.hosts else replace(step, undo=None, present=None)
        if isinstance(shaper, Classes):
            for queue in range(sum(shaper.queue_counts)):
                child = shaper.child_of(queue)
                if child is not None:
                    yield from KINDS[child.kind].steps(child, place.beneath(queue))


def _place(scenario: Scenario, site: Site, name: str) -> Place:
    """Where it stands: at the interface, or at that of the guest to which VFIO hands the card."""
    end = parse_end(name)
    there = site.on(scenario.machine_of(end.host))
    speed = scenario.speed_at(end)
    for guest, wanted in scenario.guests.items():
        if becomes_the_guests(wanted) and End(wanted.host, wanted.uplink or "") == end:
            end = End(guest, wanted.interface)
    return Place(end=end, site=there, speed=speed)
