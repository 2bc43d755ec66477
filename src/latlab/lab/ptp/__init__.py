"""linuxptp for the time of a cell: a ptp4l at each port that has a role, and phc2sys where clocks have to follow.

A ptp4l that runs already is asked and left alone. Everything is at most started here, never stopped for good: what a
daemon turns (a clock's frequency, a card's timestamping) is read before and set again afterwards. The time itself stays
the master's.
"""

from __future__ import annotations

from collections.abc import Iterator

from latlab.lab.ptp.daemon import observed_steps, port_steps
from latlab.lab.ptp.port import Port, ptp_ports
from latlab.lab.service import Service
from latlab.lab.site import Site
from latlab.lab.step import Step
from latlab.scenario import Scenario

__all__ = ["Port", "locked_steps", "ptp_ports", "ptp_steps"]


def ptp_steps(scenario: Scenario, site: Site) -> Iterator[Step | Service]:
    """Masters first, each with its clock; then slaves, each of which is waited for until it is locked."""
    ports = ptp_ports(scenario, site)
    folders = {port.site.name: port for port in ports if port.role}
    for port in folders.values():
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
    """Each slave that was started is locked still, or anew: setting up a card's queues or gates may have reset it."""
    for port in ptp_ports(scenario, site):
        if port.role == "slave":
            yield Step(port.site.name, f"{port.end} is locked as streams are to begin", (), check=port.locked)
