"""What shapes the traffic that leaves an interface, as steps: queues, the qdisc at the root, those beneath, read back.

A kind of shaper is one file and one line in KINDS. All run in the host that has the interface, once everything else
stands: a bridge that takes a card may give it its queues again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from latlab.scenario import End, Scenario
from latlab.scenario.guests import becomes_the_guests
from latlab.scenario.parts import parse_end
from latlab.testbed.shapers.base import QdiscPlace, ShaperKind, free_root
from latlab.testbed.shapers.leaves import CbsKind, EtfKind, TbfKind
from latlab.testbed.shapers.mqprio import MqprioKind
from latlab.testbed.shapers.taprio import TaprioKind
from latlab.testbed.site import Site
from latlab.testbed.step import Before, Check, Step

KINDS: Mapping[str, ShaperKind] = {
    "taprio": TaprioKind(),
    "mqprio": MqprioKind(),
    "etf": EtfKind(),
    "cbs": CbsKind(),
    "tbf": TbfKind(),
}


def transmit_queue_steps(scenario: Scenario, site: Site) -> Iterator[Step]:
    """Each shaper's interface has the transmit queues it needs. A card may set its clock again when it gets others."""
    for name, shaper in scenario.shapers.items():
        if shaper.queue_count:
            yield from queue_steps(scenario, _place(scenario, site, name), shaper.queue_count)


def shaper_steps(scenario: Scenario, site: Site) -> Iterator[Step]:
    """The steps for each shaper, in the scenario's order."""
    for name, shaper in scenario.shapers.items():
        place = _place(scenario, site, name)
        yield free_root(place)
        for step in KINDS[shaper.kind].steps(shaper, place):
            # What is set in a guest ends with it.
            yield step if place.end.host in scenario.hosts else replace(step, undo=None, present=None)
        for queue, child in shaper.beneath.items():
            yield from KINDS[child.kind].steps(child, place.beneath(queue))


def _place(scenario: Scenario, site: Site, name: str) -> QdiscPlace:
    """Where it stands: at the interface, or at that of the guest to which VFIO hands the card."""
    end = parse_end(name)
    there = site.on(scenario.machine_of(end.host))
    speed = scenario.speed_at(end)
    for guest, wanted in scenario.guests.items():
        if becomes_the_guests(wanted) and End(wanted.host, wanted.uplink or "") == end:
            end = End(guest, wanted.interface)
    return QdiscPlace(end=end, site=there, speed=speed)


# Transmit queues: each traffic class has its own. Links that are made have theirs already, by the scenario.


COUNT = 'ls -d "/sys/class/net/$0/queues/tx-"* | wc -l'
MORE = f'[ "$({COUNT})" -ge "$1" ] || ethtool -L "$0" combined "$1" || ethtool -L "$0" tx "$1"'
BACK = f'''[ "$({COUNT})" = "$1" ] ||
ethtool -L "$0" combined "$2" tx "$3" || ethtool -L "$0" combined "$2" || ethtool -L "$0" tx "$3"'''


def queue_steps(scenario: Scenario, place: QdiscPlace, needed: int) -> Iterator[Step]:
    """A card with fewer queues than needed gets more, until the end of the cell (ethtool(8), --set-channels)."""
    link = next(link for link in scenario.links if place.end in link.ends)
    if scenario.link_is_created(link) or scenario.is_emulated(place.end):
        return
    yield Step(
        host=place.end.host,
        title=f"{place.end} has {needed} transmit queues",
        do=("sh", "-c", MORE, place.device, str(needed)),
        undo=("sh", "-c", BACK, place.device, "{queues}", "{combined}", "{tx}"),
        before=Before(("sh", "-c", f'{COUNT}; ethtool -l "$0" 2>/dev/null || true', place.device), former_queues),
        check=Check(
            ("sh", "-c", COUNT, place.device),
            expected=f"{needed} or more",
            read=lambda output: f"{needed} or more" if int(output) >= needed else output.strip(),
        ),
    )


def former_queues(output: str) -> Mapping[str, str]:
    """`{"queues": …, "combined": …, "tx": …}`: transmit queues there are, and ethtool's numbers; 0 for none."""
    count, _, rest = output.partition("\n")
    now = rest.partition("Current hardware settings:")[2]
    numbers = dict(re.findall(r"^(TX|Combined):\s+(\d+)$", now, re.MULTILINE))
    return {"queues": str(int(count)), "combined": numbers.get("Combined", "0"), "tx": numbers.get("TX", "0")}
