"""What a run or a build uses is not removed by another process, and is removed later."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
from pathlib import Path

import pytest

from latlab.model.errors import LabError, UsageError
from latlab.run import matrix
from latlab.scenario import Scenario, load_scenario
from latlab.testbed.guests.start import images_in_use
from latlab.testbed.images import Image, Removal, build, build_image, clean_images, find_image, in_use, list_images
from latlab.testbed.images.put_together import main, words_for
from latlab.testbed.images.store import (
    DESCRIPTION,
    LOCK,
    folder_name,
    home,
    packages_directory,
    remove_superseded,
    size_of,
    write_description,
)

NAME, OTHER = "debian-cloud", "debian-rt"
SCENARIO = """\
name: one-guest
hosts: {sensor: {kind: netns}, ecu: {kind: netns}}
links:
  - {ends: [sensor.eth0, ecu.eth0]}
guests:
  vm1: {host: ecu, uplink: eth0}
streams:
  control: {talker: sensor, listener: vm1, period: 1ms, size: 64B}
duration: 1s
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of images of this test's own, empty."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("LATLAB_CACHE", str(folder))
    return folder


def written(name: str, content: str) -> Image:
    """An image of this content, described as the one of that name; no guest can boot it."""
    digest = content.encode().hex().ljust(64, "0")
    folder = home(name) / folder_name(digest)
    folder.mkdir(parents=True)
    kernel, initramfs = folder / "kernel", folder / "initramfs"
    for path in (kernel, initramfs):
        path.write_text(content)
    image = Image(name, kernel, initramfs, "", "cloud", "6", digest, {}, "", size_of(folder, "guest"))
    write_description(image, home(name) / DESCRIPTION)
    return image


def is_kept(path: Path) -> bool:
    """Whether anybody has a lock on the file or folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """A scenario with a guest of the ready-made image."""
    path = tmp_path / "one-guest.yaml"
    path.write_text(SCENARIO)
    return path


def scenario_in(path: Path) -> Scenario:
    return load_scenario(path).scenario


def test_a_build_leaves_the_image_before_while_a_run_uses_it(scenario: Path) -> None:
    before = written(NAME, "before")
    with images_in_use([scenario_in(scenario)]) as images:
        assert images == {NAME: before}
        after = written(NAME, "after")
        remove_superseded(home(NAME))
        assert before.kernel.read_text() == "before"
        assert list_images() == [after]
    remove_superseded(home(NAME))
    assert not before.folder.exists()
    assert after.folder.exists()


def test_a_run_keeps_its_images_from_its_first_check_on(scenario: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, left = written(NAME, "before"), []

    def checked(*_: object) -> None:
        written(NAME, "after")
        remove_superseded(home(NAME))
        left.append(before.folder.exists())
        raise UsageError("enough")

    monkeypatch.setattr(matrix, "check", checked)
    with pytest.raises(UsageError, match="enough"):
        asyncio.run(matrix.run(load_scenario(scenario), scenario.parent))
    assert left == [True]


def test_cleaning_leaves_and_names_what_a_run_uses(scenario: Path) -> None:
    used, other = written(NAME, "used"), written(OTHER, "other")
    with images_in_use([scenario_in(scenario)]):
        done = clean_images()
        assert [line.partition(",")[0] for line in done.removed] == [f"image {OTHER}"]
        assert done.in_use == [f"image {NAME}: a run or a build uses it"]
        assert (find_image(NAME), other.folder.exists()) == (used, False)
        assert clean_images([NAME]) == Removal([], done.in_use)
    assert [line.partition(",")[0] for line in clean_images([NAME]).removed] == [f"image {NAME}"]
    assert list_images() == []


def test_nothing_is_written_to_use_an_image_and_two_runs_may(scenario: Path, cache: Path) -> None:
    written(NAME, "one")
    before = sorted(cache.rglob("*"))
    with images_in_use([scenario_in(scenario)]), images_in_use([scenario_in(scenario)]):
        assert sorted(cache.rglob("*")) == before


def test_an_image_that_is_replaced_as_it_is_found_is_found_again() -> None:
    before = written(NAME, "before")
    found = iter([before])

    def find() -> Image:
        if image := next(found, None):
            written(NAME, "after")
            remove_superseded(home(NAME))
            return image
        (now,) = list_images()
        return now

    with in_use(find, lambda image: [image.folder]) as image:
        assert image.kernel.read_text() == "after"
        assert is_kept(image.folder)
    assert not is_kept(image.folder)


def test_a_file_system_without_locks_keeps_no_run_from_its_images(
    scenario: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    image = written(NAME, "one")
    monkeypatch.setattr(fcntl, "flock", refused)
    with images_in_use([scenario_in(scenario)]) as images:
        assert images == {NAME: image}


def test_a_build_keeps_packages_and_the_guests_image_and_searches_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nested, states = written(NAME, "nested"), []

    def find_ingredients(*_: object) -> None:
        packages = packages_directory()
        states.append([is_kept(path) for path in (packages, packages / LOCK, nested.folder)])
        raise LabError("enough")

    monkeypatch.setattr(build, "_nested_image", lambda *_: nested)
    monkeypatch.setattr(build, "find_ingredients", find_ingredients)
    agent = tmp_path / "agent"
    agent.touch()
    with pytest.raises(LabError, match="enough"):
        build_image("debian-rt-board", agent=agent)
    assert states == [[True, True, True]]
    assert [is_kept(path) for path in (packages_directory(), nested.folder)] == [False, False]


def test_packages_that_a_build_uses_are_left_and_named() -> None:
    packages_directory().mkdir(parents=True)
    with in_use(packages_directory, lambda folder: [folder]):
        assert clean_images() == Removal([], ["fetched packages: a build uses them"])
    assert [line.partition(",")[0] for line in clean_images().removed] == ["fetched packages"]


def test_a_board_is_not_assembled_from_images_that_were_built_again() -> None:
    board, guest = written("debian-rt-board", "board"), written(OTHER, "before")
    words = words_for(board, guest)
    assert words == (f"debian-rt-board@{folder_name(board.digest)}", f"{OTHER}@{folder_name(guest.digest)}")
    written(OTHER, "after")
    with pytest.raises(LabError, match=f"built again since the run began: {OTHER}") as told:
        main(*words)
    assert "start the run again" in told.value.remedy
