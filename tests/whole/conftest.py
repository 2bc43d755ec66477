"""The `latlab` command on a machine of the test's own, as a user runs it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command import FinishedRun, Place
from support.guests.runs import image_cache
from support.machine import private_network


@pytest.fixture(scope="session")
def images(pytestconfig: pytest.Config) -> Path:
    """The folder of images: what it lacks is fetched before a test's own network, which leads nowhere, is entered."""
    return image_cache(pytestconfig)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A machine, a folder and a journal of this test's own."""
    with private_network(), Place(tmp_path) as made:
        yield made


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    """The small scenario, run once for all the tests that look at what came of it."""
    with private_network(), Place(tmp_path_factory.mktemp("finished")) as place:
        before = place.trace()
        ended = place.latlab("run", place.scenario(), "--json", pictures=True)
        return FinishedRun(place, ended, place.only_run(), before, place.trace())
