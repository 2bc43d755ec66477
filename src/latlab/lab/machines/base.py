"""What every kind of machine is to the lab."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from latlab.errors import LabError
from latlab.host import Host
from latlab.lab.service import Service
from latlab.lab.site import Site
from latlab.lab.step import Step
from latlab.scenario import Scenario


class MachineKind(ABC):
    """One kind of machine a scenario's host can be."""

    @abstractmethod
    def host(self, scenario: Scenario, name: str, site: Site) -> Host:
        """The host that runs commands in the machine's own network namespace. site: this machine's."""

    def lacking(self, scenario: Scenario, name: str, site: Site) -> Iterator[LabError]:
        """What keeps it from being used, as far as this machine tells. site: this machine's."""
        yield from ()

    @abstractmethod
    def steps(self, scenario: Scenario, name: str, site: Site) -> Iterator[Step | Service]:
        """It is reached, and ready for the test bed. site: this machine's."""

    @abstractmethod
    def site(self, scenario: Scenario, name: str, site: Site) -> Site:
        """The cell's place there; its machine is set by who knows it. site: this machine's."""
