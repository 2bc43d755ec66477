"""One guest serves all tests here, but those that end it; its first process is the agent."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from latlab.testbed.agent_binary import find_agent
from latlab.testbed.images import Image, build_image
from support.guests.booted import BootedGuest, boot

NEEDED = {"qemu-system-x86_64": "qemu-system-x86", "apt-get": "apt", "dpkg": "dpkg"}


@pytest.fixture(scope="session")
def image(pytestconfig: pytest.Config) -> Image:
    """What guests boot here."""
    if platform.machine() != "x86_64":
        pytest.skip(f"the guests of these tests are x86_64, and this machine is {platform.machine()}")
    missing = sorted(package for tool, package in NEEDED.items() if not shutil.which(tool))
    assert not missing, f"install {' '.join(missing)}: the guest needs them"
    with mock.patch.dict(os.environ, LATLAB_CACHE=str(pytestconfig.cache.mkdir("emulated"))):
        return build_image("debian-cloud", agent=find_agent())


@pytest.fixture(scope="session")
def guest(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BootedGuest]:
    """A guest with four ports that runs."""
    with boot(image, tmp_path_factory.mktemp("guest")) as guest:
        yield guest


@pytest.fixture
def own_guest(image: Image, tmp_path: Path) -> Iterator[BootedGuest]:
    """A guest for one test, which may do with it what it likes."""
    with boot(image, tmp_path) as guest:
        yield guest
