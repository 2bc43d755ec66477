"""Which guests have the PTP clock by which KVM shows its host's time, and what else is needed to read it.

The guest's module ptp_kvm makes that clock. latlab does not load it: a guest of the user is not changed.
"""

from __future__ import annotations

from collections.abc import Mapping

from latlab.hosts import Host
from latlab.model.errors import LabError
from latlab.model.part import Facts
from latlab.scenario import Scenario
from latlab.testbed.machine import Machine

KVM_CLOCK = "KVM virtual PTP"
"""The clock's name (drivers/ptp/ptp_kvm_common.c)."""
CLOCK_NAMES = ("sh", "-c", "cat /sys/class/ptp/*/clock_name")


def with_kvm_clock(facts: Facts) -> frozenset[str]:
    """The guests that have it."""
    return frozenset(
        name for name, found in facts.items() if KVM_CLOCK in (phc["name"] for phc in found["clock"]["phcs"].values())
    )


def planned_with_kvm_clock(scenario: Scenario, machine: Machine, hosts: Mapping[str, Host]) -> frozenset[str]:
    """The same for a plan: of the guests only domains run before a run does, and can be asked."""
    domains = [name for name, guest in scenario.guests.items() if guest.domain]
    said = {name: machine.say(hosts[name].command(CLOCK_NAMES)) or "" for name in domains}
    return frozenset(name for name, names in said.items() if KVM_CLOCK in names.splitlines())


def tai_offset_s(facts: Facts, host: str) -> int:
    """TAI − UTC on the host, as adjtimex reports it. LabError: it does not."""
    offset = facts[host]["clock"]["tai_offset_s"]
    if offset is None:
        raise LabError(
            "adjtimex does not give the TAI offset, which KVM's clock in a guest needs",
            where=host,
            remedy="set `clock: {sync: exchange}`",
        )
    return int(offset)
