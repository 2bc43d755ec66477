"""Emulated boards' network cards, where they are ends of cables: moved to the namespaces that take them, and set up."""

from __future__ import annotations

from collections.abc import Iterator

from latlab.model.bridges import KINDS
from latlab.scenario import End, Link, NetnsHost, Scenario
from latlab.testbed.bridges.joints import mac_of
from latlab.testbed.namespaces import ipv6_off, namespace_name
from latlab.testbed.site import Site
from latlab.testbed.step import Check, Step

QUEUES = 'now=$(ethtool -l "$1" 2>/dev/null | sed -n "s/^Combined:[^0-9]*//p" | tail -n 1); echo "${now:-1}"'
"""What `ethtool -l` says last is what is; a driver that knows no answer has one pair."""
SET_QUEUES = f'[ "$({QUEUES})" = "$2" ] || ethtool -L "$1" combined "$2"'


def card_steps(scenario: Scenario, site: Site) -> Iterator[Step]:
    """Each namespace has the cards it takes of its board, but for those that are handed on to a guest.

    Nothing is undone: the board ends with the cell.
    """
    for name, host in scenario.hosts.items():
        for card in host.cards if isinstance(host, NetnsHost) else ():
            if not is_handed_on(scenario, End(name, card)):
                yield Step(
                    host=site.on(scenario.machine_of(name)).name,
                    title=f"move {card} into {name}'s namespace",
                    do=("ip", "link", "set", "dev", card, "netns", namespace_name(site.tag, name)),
                )


def is_handed_on(scenario: Scenario, end: End) -> bool:
    """Whether the interface's card becomes a guest's own. One that a guest names by its address is another."""
    on_it = (guest for guest in scenario.guests.values() if End(guest.host, guest.uplink or "") == end)
    return any(KINDS[guest.bridge].hands_over_card and guest.device is None for guest in on_it)


def as_it_is_to_be(scenario: Scenario, end: End, link: Link, site: Site) -> Iterator[Step]:
    """The card is the one meant, and has queues and MTU as the link says."""
    handed_on = is_handed_on(scenario, end)
    yield Step(
        host=site.on(scenario.machine_of(end.host)).name if handed_on else end.host,
        title=f"{end} is the card at its cable",
        do=(),
        check=Check(
            ("cat", f"/sys/class/net/{end.interface}/address"),
            expected=mac_of(scenario, site.tag, scenario.segment_of(end), end),
        ),
    )
    if handed_on:
        return
    yield ipv6_off(end.host, end.interface)
    yield queue_step(end, link.queues)
    yield Step(
        end.host, f"give {end} the link's MTU", ("ip", "link", "set", "dev", end.interface, "mtu", str(link.mtu))
    )


def queue_step(end: End, queues: int) -> Step:
    """A card that can have several queues begins with one for each CPU."""
    return Step(
        host=end.host,
        title=f"give {end} its queues",
        do=("sh", "-c", SET_QUEUES, "sh", end.interface, str(queues)),
        check=Check(("sh", "-c", QUEUES, "sh", end.interface), expected=str(queues)),
    )
