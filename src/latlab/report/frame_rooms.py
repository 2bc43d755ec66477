"""From which size on the packets of a run go in several frames, by the scenario it was run with."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from latlab.errors import LatlabError
from latlab.recordings.run_folder import RunFolder
from latlab.scenario import Scenario, cells, load_scenario
from latlab.scenario.one_frame import Room, room


class FrameRooms:
    """The rooms of a run's cells. The scenario is read when the first one is asked for."""

    def __init__(self, folder: RunFolder) -> None:
        self._path = folder.scenario_path

    def of(self, slug: str, stream: str) -> Room | None:
        """That of a cell's stream, probe or leg; None where nobody can tell, as of an imported cell."""
        scenario = self._scenarios.get(slug)
        return room(scenario, stream) if scenario else None

    @cached_property
    def _scenarios(self) -> Mapping[str, Scenario]:
        try:
            return {cell.slug: cell.scenario for cell in cells(load_scenario(self._path))}
        except LatlabError:
            return {}  # as a later version of latlab may read it differently
