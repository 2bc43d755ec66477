"""A machine of each test's own, with the image that its guests start from."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from latlab.testbed.agent_binary import find_agent
from latlab.testbed.images import build_image
from latlab.testbed.site import STATE
from support.guests.place import GuestPlace
from support.machine import private_network, run

NEEDED = {"qemu-system-x86_64": "qemu-system-x86", "apt-get": "apt", "dpkg": "dpkg", "bpftool": "bpftool"}
IMAGE = "debian-cloud"


@pytest.fixture(scope="session")
def cache(pytestconfig: pytest.Config) -> Path:
    """Where the image of the guests is, with its snapshots."""
    if platform.machine() != "x86_64":
        pytest.skip(f"the guests of these tests are x86_64, and this machine is {platform.machine()}")
    missing = sorted(package for tool, package in NEEDED.items() if not shutil.which(tool))
    assert not missing, f"install {' '.join(missing)}: these tests need them"
    cache = pytestconfig.cache.mkdir("emulated")
    with mock.patch.dict(os.environ, LATLAB_CACHE=str(cache)):
        build_image(IMAGE, agent=find_agent())
    return cache


@pytest.fixture
def place(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GuestPlace]:
    """A machine, a folder and a journal of this test's own."""
    with private_network():
        os.makedirs(STATE, exist_ok=True)
        run("mount", "-t", "tmpfs", "tmpfs", STATE)
        run("mount", "-t", "bpf", "bpf", "/sys/fs/bpf")
        made = GuestPlace(tmp_path)
        monkeypatch.chdir(tmp_path)
        for name, value in made.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("LATLAB_CACHE", str(cache))
        yield made
        made.end_all()
