"""Building does what changed and no more, and whatever happens to it an image is there whole or not at all."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from latlab.model.errors import LabError, UsageError
from latlab.testbed.agent_binary import find_agent
from latlab.testbed.images import Image, Removal, build_image, clean_images, find_image, list_images, snapshot_path
from support.images.cpio import read

LATLAB = Path(sys.executable).with_name("latlab")
NAME = "debian-cloud"


def latlab(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    """The command, running; its progress is on its standard error."""
    return subprocess.Popen(
        [LATLAB, "image", *arguments],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def no_fetching(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing; apt-get and dpkg -x are failures from now on, and no package is left."""
    programs = folder / "programs"
    programs.mkdir()
    (programs / "apt-get").write_text("#!/bin/sh\nexit 1\n")
    (programs / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    for package in (folder / "packages").glob("*.deb"):
        package.unlink()


def another_agent(folder: Path) -> Path:
    """A static program that is not the installed agent."""
    path = folder / "latlab-agent"
    path.write_bytes(find_agent().read_bytes() + b"another")
    return path


def test_the_same_again_builds_nothing(own: Path) -> None:
    before = find_image(NAME)
    assert before
    told: list[str] = []
    assert build_image(NAME, say=told.append) == before
    assert told == []
    assert before.is_up_to_date(find_agent())


@pytest.mark.long
def test_the_same_inputs_make_the_same_bytes(own: Path) -> None:
    before = find_image(NAME)
    assert before
    parts = [path.read_bytes() for path in (before.kernel, before.initramfs)]
    told: list[str] = []
    after = build_image(NAME, force=True, say=told.append)
    assert "unpacking" in told[0]
    assert after.digest == before.digest
    assert [path.read_bytes() for path in (after.kernel, after.initramfs)] == parts


def test_another_agent_needs_no_package(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = find_image(NAME)
    assert before
    agent = another_agent(own)
    no_fetching(own, monkeypatch)
    after = build_image(NAME, agent=agent)
    assert after.digest != before.digest
    assert (after.is_up_to_date(agent), after.is_up_to_date(find_agent())) == (True, False)
    assert not before.folder.exists()
    assert list_images() == [after]


def test_what_cannot_be_fetched_is_reported_and_the_image_before_stays(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = find_image(NAME)
    no_fetching(own, monkeypatch)
    with pytest.raises(LabError, match="apt-get update"):
        build_image(NAME, force=True)
    assert find_image(NAME) == before


def test_empty_package_lists_are_reported_with_what_fills_them(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (own / "lists").mkdir()
    settings = own / "apt.conf"
    settings.write_text(f'Dir::State::lists "{own}/lists"; Dir::State::status "/dev/null";')
    monkeypatch.setenv("APT_CONFIG", str(settings))
    with pytest.raises(LabError, match=r"linux-image-cloud-.*`apt-get update`"):
        build_image(NAME)


@pytest.mark.long
def test_an_unknown_package_is_reported(own: Path) -> None:
    with pytest.raises(LabError, match=r"apt finds no package no-such-package; it searched \S+ \w+"):
        build_image(NAME, packages=["no-such-package"])
    assert (own / "packages" / "components" / "sources.list").read_text().count(" non-free\n") == 1


@pytest.mark.long
def test_a_package_of_another_component_is_found_there_and_the_machines_apt_is_as_before(own: Path) -> None:
    def known() -> str:
        return subprocess.run(["apt-get", "indextargets"], capture_output=True, text=True, check=True).stdout

    before, told = known(), list[str]()
    image = build_image(NAME, packages=["netperf"], say=told.append)
    assert "netperf is from Debian's component non-free, which has non-free software" in told
    assert {"usr/bin/netperf", "usr/bin/netserver"} <= {one.name for one in read(image.initramfs.read_bytes())}
    assert known() == before


def test_an_agent_that_is_linked_with_libraries_is_refused(own: Path) -> None:
    with pytest.raises(LabError, match="not statically linked"):
        build_image(NAME, agent=Path(shutil.which("env") or ""))


@pytest.mark.parametrize(
    ("name", "flavour"), [("Upper", None), ("../x", "rt"), ("mine", None), (NAME, "rt"), ("m", "x")]
)
def test_a_name_or_flavour_that_cannot_be_is_a_usage_error(own: Path, name: str, flavour: str | None) -> None:
    with pytest.raises(UsageError):
        build_image(name, flavour)
    assert [image.name for image in list_images()] == [NAME]


def test_a_build_killed_in_the_middle_leaves_the_image_before_and_nothing_else_for_long(own: Path) -> None:
    before = find_image(NAME)
    assert before
    build = latlab("build", NAME, "--force")
    assert build.stderr
    assert "unpacking" in build.stderr.readline()
    build.send_signal(signal.SIGKILL)
    build.communicate()
    assert find_image(NAME) == before
    assert len(list(before.folder.parent.glob(".building-*"))) == 1
    build_image(NAME)
    assert {path.name for path in before.folder.parent.iterdir()} == {".lock", "image.json", before.folder.name}


@pytest.mark.long
def test_a_first_build_killed_in_the_middle_leaves_no_image(own: Path) -> None:
    clean_images([NAME])
    build = latlab("build", NAME)
    assert build.stderr
    build.stderr.readline()
    build.send_signal(signal.SIGKILL)
    build.communicate()
    assert find_image(NAME) is None
    assert list_images() == []


@pytest.mark.long
def test_two_builds_at_once_make_one_image(own: Path) -> None:
    clean_images([NAME])
    builds = [latlab("build", NAME) for _ in range(2)]
    told = [build.communicate()[1] for build in builds]
    assert [build.returncode for build in builds] == [0, 0], told
    assert sorted("unpacking" in one for one in told) == [False, True]
    assert [image.name for image in list_images()] == [NAME]


def test_an_image_whose_files_are_not_whole_is_none(own: Path) -> None:
    image = find_image(NAME)
    assert image
    os.truncate(image.initramfs, 1000)
    assert find_image(NAME) is None


def test_cleaning_takes_the_snapshots_along_and_all_means_the_packages_too(own: Path) -> None:
    image = find_image(NAME)
    assert image
    path = snapshot_path(image, "x")
    path.parent.mkdir()
    path.touch()
    with pytest.raises(UsageError, match="no image other"):
        clean_images([NAME, "other"])
    assert path.exists()
    (line,) = clean_images([NAME]).removed
    assert line.startswith(f"image {NAME} with 1 snapshot, ")
    assert list((own / "images").iterdir()) == []
    assert [line.split(",")[0] for line in clean_images().removed] == ["fetched packages"]
    assert clean_images() == Removal()


@pytest.mark.long
def test_a_package_asked_for_comes_whole_but_its_documentation(own: Path) -> None:
    from support.images.cpio import read

    image: Image = build_image("mine", "cloud", ["hostname"])
    names = {one.name for one in read(image.initramfs.read_bytes())}
    assert "usr/bin/dnsdomainname" in names
    assert not any(name.startswith("usr/share/man/") for name in names)
    assert image.extra == ("hostname",)
    assert [one.name for one in list_images()] == [NAME, "mine"]
