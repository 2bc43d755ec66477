"""One small system, and one libvirt of the tests' own, serve all tests here."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from latlab.testbed.agent_binary import find_agent
from support.command import Place
from support.guests.foreign import System, make_disk, make_system
from support.guests.libvirt import Libvirt, own_libvirt
from support.machine import private_network

NEEDED = {
    "qemu-system-x86_64": "qemu-system-x86",
    "apt-get": "apt",
    "dpkg": "dpkg",
    "ssh-keygen": "openssh-client",
    "virsh": "libvirt-clients",
    "libvirtd": "libvirt-daemon libvirt-daemon-driver-qemu",
}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the system's files are."""
    return tmp_path_factory.mktemp("foreign")


@pytest.fixture(scope="session")
def system(pytestconfig: pytest.Config, folder: Path) -> System:
    """A kernel and an initial file system that are not ours."""
    if platform.machine() != "x86_64":
        pytest.skip(f"the guests of these tests are x86_64, and this machine is {platform.machine()}")
    missing = sorted(package for tool, package in NEEDED.items() if not shutil.which(tool))
    assert not missing, f"install {' '.join(missing)}: the guests need them"
    with mock.patch.dict(os.environ, LATLAB_CACHE=str(pytestconfig.cache.mkdir("emulated"))):
        return make_system(folder, find_agent())


@pytest.fixture(scope="session")
def disk(pytestconfig: pytest.Config, folder: Path, system: System) -> Path:
    """A disk that starts the same system alone."""
    with mock.patch.dict(os.environ, LATLAB_CACHE=str(pytestconfig.cache.mkdir("emulated"))):
        return make_disk(folder, system)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A machine, a folder and a journal of this test's own."""
    with private_network(), Place(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def libvirt(tmp_path_factory: pytest.TempPathFactory, system: System) -> Iterator[Libvirt]:
    """On a separate machine a libvirt, whose one domain runs the system: the tests of a module share it."""
    with private_network(), own_libvirt(tmp_path_factory.mktemp("libvirt"), system) as running:
        yield running
