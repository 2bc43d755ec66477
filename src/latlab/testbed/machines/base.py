"""What every kind of machine is to the lab."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from latlab.hosts import Host
from latlab.model.errors import LabError
from latlab.scenario import Scenario
from latlab.testbed.machine import Machine, assumed_machine
from latlab.testbed.site import Site
from latlab.testbed.step import Service, Step


class MachineKind(ABC):
    """One kind of machine a scenario's host can be."""

    tools: ClassVar[tuple[str, ...]] = ()
    """The programs of this machine that it takes."""

    @abstractmethod
    def host(self, scenario: Scenario, name: str, site: Site) -> Host:
        """The host that runs commands in the machine's own network namespace. site: this machine's."""

    def lacking(self, scenario: Scenario, name: str, site: Site) -> Iterator[LabError]:
        """What keeps it from being used, as far as this machine shows. site: this machine's."""
        yield from ()

    def snapshot(self, scenario: Scenario, name: str, site: Site) -> Path | None:
        """What it resumes from, whether that exists or not; None where it has no such thing. site: this machine's."""
        return None

    def can_be_kept(self, scenario: Scenario, name: str) -> bool:
        """Whether cells in virtual time that share a test bed can go on from what was kept of it once that was made."""
        return True

    @abstractmethod
    def steps(self, scenario: Scenario, name: str, site: Site) -> Iterator[Step | Service]:
        """It is reached, and ready for the test bed. site: this machine's; without a snapshot of it none is made."""

    def planned(self, scenario: Scenario, name: str) -> Machine:
        """What is assumed of it before it is inspected."""
        return assumed_machine()

    @abstractmethod
    def site(self, scenario: Scenario, name: str, site: Site) -> Site:
        """The cell's place there; its machine is set by who knows it. site: this machine's."""
