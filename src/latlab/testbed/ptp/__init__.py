"""linuxptp for the time of a cell: a ptp4l at each port that has a role, and phc2sys where clocks have to follow.

A ptp4l that already runs is queried and not changed. Processes are only started here, never stopped permanently: what a
daemon turns (a clock's frequency, a card's timestamping) is read before and set again afterwards. The time itself stays
the master's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from latlab.scenario import Scenario
from latlab.testbed.ptp.daemon import following, nobody_else, observed_steps, port_steps
from latlab.testbed.ptp.port import ClockPort, absent_ports, ptp_ports
from latlab.testbed.site import Site
from latlab.testbed.step import Service, Step

__all__ = ["ClockPort", "absent_ports", "locked_steps", "ptp_ports", "ptp_steps"]


def ptp_steps(scenario: Scenario, site: Site) -> Iterator[Step | Service]:
    """Each port after those whose time it has; a slave is waited for until it is locked."""
    ports = _in_order(scenario, ptp_ports(scenario, site))
    machines: dict[str, list[ClockPort]] = {}
    for port in ports:
        if port.role:
            machines.setdefault(port.site.name, []).append(port)
    for port, *more in machines.values():
        observed = [other for other in ports if not other.role and other.site.name == port.site.name]
        if alone := nobody_else((port, *more), observed):
            yield alone
        yield Step(
            host=port.site.name,
            title="make the folder of ptp4l's sockets",
            do=("mkdir", "-p", "-m", "700", port.folder),
            undo=("rm", "-r", port.folder),
            present=("test", "-d", port.folder),
        )
    for port in ports:
        yield from port_steps(port) if port.role else observed_steps(port)


def locked_steps(scenario: Scenario, site: Site) -> Iterator[Step]:
    """Each clock that is turned is still right, or again: setting up gates may have reset its card."""
    for port in _in_order(scenario, ptp_ports(scenario, site)):
        if port.in_hardware and port.role == "master":
            yield Step(
                port.end.host, f"{port.end} has its system's time before streams start", (), check=following(port)
            )
        if port.role == "slave":
            check = port.locked(span_ns=0)
            yield Step(port.end.host, f"{port.end} is locked before streams start", (), check=check)
        if port.system_follows:
            yield Step(
                port.end.host,
                f"{port.site.name} has {port.end}'s time before streams start",
                (),
                check=following(port),
            )


def _in_order(scenario: Scenario, ports: Sequence[ClockPort]) -> list[ClockPort]:
    """The ports, each after those whose time it has: a master whose machine is itself turned by a slave comes after
    that slave. Those that are observed are last.

    No clock follows itself: a scenario in which one would is refused.
    """
    turning = {port.site.name: port for port in ports if port.turns_the_system}

    def hops(port: ClockPort) -> int:
        """From the clock that nothing turns: even of a master, odd of a slave."""
        if port.role == "slave":
            there = scenario.ptp_master_of(port.end)
            master = next((other for other in ports if other.end == there and other.role == "master"), None)
            return 1 + (hops(master) if master else 0)
        turned_by = turning.get(port.site.name)
        return 1 + hops(turned_by) if turned_by else 0

    started = [port for port in ports if port.role]
    return [*sorted(started, key=hops), *(port for port in ports if not port.role)]
