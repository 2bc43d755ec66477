"""How the machine is tuned for a cell: what a scenario's `tuning` asks for next to latlab's own processes, as steps.

All are optional: what cannot be done on a machine is a finding, reported with the error, and the run continues. Each is
read back, and again at the end. A new part is one file and one line in BEFORE_GUESTS or WITH_GUESTS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from latlab.scenario import Scenario
from latlab.scenario.guests import becomes_the_guests
from latlab.testbed.site import Site
from latlab.testbed.step import Step
from latlab.testbed.tuning.cpus import halt_poll_steps, isolation_steps, profile_steps
from latlab.testbed.tuning.interrupts import coalescing_steps, irq_steps, scaling_steps, steering_steps
from latlab.testbed.tuning.threads import thread_steps

Part = Callable[[str, Scenario, Site], Iterator[Step]]
"""The steps of one host or guest, by its name."""

BEFORE_GUESTS: tuple[Part, ...] = (isolation_steps, profile_steps, halt_poll_steps)
"""KVM takes halt_poll_ns over when a guest is made (kvm_create_vm, before Linux 6.2)."""

WITH_GUESTS: tuple[Part, ...] = (thread_steps, coalescing_steps, scaling_steps, steering_steps, irq_steps)
"""Guests have threads once they run. A NIC may ask for new interrupts when a bridge takes it, so these are last."""


def before_guests_tuning(scenario: Scenario, site: Site) -> Iterator[Step]:
    """What is tuned on the hosts before any guest starts."""
    for host in scenario.tuning:
        if host in scenario.hosts:
            yield from _steps(BEFORE_GUESTS, host, scenario, site)


def guest_tuning(scenario: Scenario, site: Site) -> Iterator[Step]:
    """What is tuned once the guests run: on the hosts, then in the guests."""
    for host in scenario.tuning:
        if host in scenario.hosts:
            yield from _steps(WITH_GUESTS, host, _of_its_own_cards(scenario, host), site)
    for guest in scenario.tuning:
        if guest in scenario.guests:
            for step in _steps((*BEFORE_GUESTS, *WITH_GUESTS), guest, scenario, site):
                yield step if scenario.guests[guest].domain else _gone_with_it(step)


def _of_its_own_cards(scenario: Scenario, host: str) -> Scenario:
    """The scenario without what is tuned of the host's cards that have become a guest's."""
    given = {guest.uplink for guest in scenario.guests.values() if guest.host == host and becomes_the_guests(guest)}
    tuning = scenario.tuning[host]
    kept = {
        key: {card: wanted for card, wanted in getattr(tuning, key).items() if card not in given}
        for key in ("irq", "steering", "rss", "coalescing")
    }
    return scenario.model_copy(update={"tuning": {**scenario.tuning, host: tuning.model_copy(update=kept)}})


def _steps(parts: tuple[Part, ...], name: str, scenario: Scenario, site: Site) -> Iterator[Step]:
    for part in parts:
        yield from part(name, scenario, site)


def _gone_with_it(step: Step) -> Step:
    """The step without its undo: a guest that ends with the cell takes its settings along, maybe already."""
    return replace(step, undo=None, present=None, before=None)
