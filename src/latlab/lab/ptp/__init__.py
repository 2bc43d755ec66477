"""linuxptp for the time of a cell: a ptp4l at each port that has a role, and phc2sys where clocks have to follow.

A ptp4l that runs already is asked and left alone. Everything is at most started here, never stopped for good: what a
daemon turns (a clock's frequency, a card's timestamping) is read before and set again afterwards. The time itself stays
the master's.
"""

from __future__ import annotations

from collections.abc import Iterator

from latlab.lab.ptp.daemon import following, nobody_else, observed_steps, port_steps
from latlab.lab.ptp.port import Port, ptp_ports
from latlab.lab.service import Service
from latlab.lab.site import Site
from latlab.lab.step import Step
from latlab.scenario import Scenario

__all__ = ["Port", "locked_steps", "ptp_ports", "ptp_steps"]


def ptp_steps(scenario: Scenario, site: Site) -> Iterator[Step | Service]:
    """Masters first, each with its clock; then slaves, each of which is waited for until it is locked."""
    ports = ptp_ports(scenario, site)
    machines: dict[str, list[Port]] = {}
    for port in ports:
        if port.role:
            machines.setdefault(port.site.name, []).append(port)
    for port, *more in machines.values():
        if alone := nobody_else((port, *more)):
            yield alone
        yield Step(
            host=port.site.name,
            title="make the folder of ptp4l's sockets",
            do=("mkdir", "-p", "-m", "700", port.folder),
            undo=("rm", "-r", port.folder),
            present=("test", "-d", port.folder),
        )
    for port in ports:
        if port.role == "master":
            yield from port_steps(port)
    for port in ports:
        if port.role == "slave":
            yield from port_steps(port)
    for port in ports:
        if port.role is None:
            yield from observed_steps(port)


def locked_steps(scenario: Scenario, site: Site) -> Iterator[Step]:
    """Each clock that is turned is right still, or anew: setting up gates may have reset its card."""
    ports = [port for port in ptp_ports(scenario, site) if port.role]
    for port in ports:
        if port.in_hardware and port.role == "master":
            yield Step(
                port.end.host, f"{port.end} has its system's time as streams are to begin", (), check=following(port)
            )
    for port in ports:
        if port.role == "slave":
            check = port.locked(span_ns=0)
            yield Step(port.end.host, f"{port.end} is locked as streams are to begin", (), check=check)
        if port.system_follows:
            yield Step(
                port.end.host,
                f"{port.site.name} has {port.end}'s time as streams are to begin",
                (),
                check=following(port),
            )
