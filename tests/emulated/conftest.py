"""One emulated machine serves all tests here; each test that measures has two fresh hosts and a link in it."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from latlab.testbed.agent_binary import find_agent
from support.emulated.hosts import Hosts
from support.emulated.machine import Machine, boot, built_image, write_initramfs

NEEDED = {"qemu-system-x86_64": "qemu-system-x86", "apt-get": "apt", "dpkg": "dpkg"}


@pytest.fixture(scope="session")
def machine(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine with Debian's own kernel: all the qdiscs, no SCM_TS_OPT_ID."""
    if platform.machine() != "x86_64":
        pytest.skip(f"the agent built here is for {platform.machine()}, and the emulated machine is x86_64")
    missing = sorted(package for tool, package in NEEDED.items() if not shutil.which(tool))
    assert not missing, f"install {' '.join(missing)}: the emulated machine needs them"
    directory = tmp_path_factory.mktemp("emulated")
    image = built_image(pytestconfig.cache.mkdir("emulated"), find_agent())
    write_initramfs(directory / "initramfs", image)
    with boot(image.kernel, directory / "initramfs", directory / "console") as machine:
        yield machine


@pytest.fixture
def hosts(machine: Machine, tmp_path: Path) -> Iterator[Hosts]:
    """Two namespaces of the machine, `sensor` and `ecu`, whose interfaces `eth0` are one link of four queues."""
    hosts = Hosts(machine, tmp_path)
    hosts.build()
    yield hosts
    hosts.remove()
