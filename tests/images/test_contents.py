"""What is in an image: all that its programs need, nothing of the machine it was built on."""

from __future__ import annotations

import posixpath
import stat

import pytest

from latlab.testbed.agent_binary import find_agent
from latlab.testbed.images import Image
from latlab.testbed.images.recipe import BOOT_MODULES, LINKS, MODULES, PROGRAMS
from latlab.testbed.images.tree import ELF_MAGIC, links
from support.images.cpio import Found, at, dynamic_programs, modules_dep, read


@pytest.fixture(scope="module")
def found(image: Image) -> dict[str, Found]:
    """What the kernel unpacks, by name; of two of a name the later one."""
    return {one.name: one for one in read(image.initramfs.read_bytes())}


def test_every_library_a_program_needs_is_there_where_the_loader_looks(found: dict[str, Found]) -> None:
    assert "usr/bin/iperf3" in dynamic_programs(found)


def test_every_program_is_there_and_stands_before_busyboxs_own(found: dict[str, Found]) -> None:
    busybox = at(found, "usr/bin/busybox").data
    for package, names in PROGRAMS.items():
        for name in names:
            places = [f"usr/{folder}/{name}" for folder in ("bin", "sbin") if f"usr/{folder}/{name}" in found]
            assert places, f"{name} of {package}"
            for place in places:
                assert at(found, place).mode & 0o111
                assert (at(found, place).data == busybox) == (name == "busybox"), place
    for applet in ("ping", "grep", "cat", "insmod"):
        assert at(found, f"usr/bin/{applet}").data == busybox


def test_the_agent_is_the_first_process_and_a_program(found: dict[str, Found]) -> None:
    agent = find_agent().read_bytes()
    inside = at(found, "init")
    assert inside == at(found, "usr/bin/latlab-agent")
    assert inside.mode & 0o111
    # Only what no segment of the program holds is removed, and the header reports it.
    assert agent[0x40:].startswith(inside.data[0x40:])
    assert links(inside.data) == links(agent)


def test_each_link_leads_to_something(found: dict[str, Found]) -> None:
    for one in found.values():
        if stat.S_ISLNK(one.mode) and one.name not in LINKS:
            at(found, one.name)


def test_every_module_is_there_or_built_in_and_comes_after_what_it_needs(found: dict[str, Found], image: Image) -> None:
    home = f"usr/lib/modules/{image.kernel_version}"
    needs = modules_dep(found, image)
    for module, before in needs.items():
        assert f"{home}/{module}" in found
        for place, one in enumerate(before):
            assert set(needs[one]) <= set(before[place + 1 :]), f"{module}: {one} before what it needs"
    files = {posixpath.basename(module) for module in needs}
    built_in = {posixpath.basename(line) for line in found[f"{home}/modules.builtin"].data.decode().splitlines()}
    assert {f"{name}.ko" for name in MODULES} <= {name.replace("-", "_") for name in files | built_in}
    needed = needs[next(module for module in needs if module.endswith("/8021q.ko"))]
    assert {posixpath.basename(one) for one in needed} >= {"garp.ko", "mrp.ko"}


def test_the_modules_of_the_boot_are_listed_in_loading_order(found: dict[str, Found], image: Image) -> None:
    home = f"/lib/modules/{image.kernel_version}"
    needs = modules_dep(found, image)
    listed = found["etc/latlab/modules"].data.decode().splitlines()
    loaded: list[str] = []
    for path in listed:
        module = at(found, path.lstrip("/")).name.removeprefix(f"usr{home}/")
        assert set(needs[module]) <= set(loaded)
        loaded.append(module)
    assert {f"{name}.ko" for name in BOOT_MODULES} <= {posixpath.basename(module) for module in loaded}
    assert len(loaded) < 15, "each costs every boot some milliseconds"


def test_the_kernel_is_one_that_need_not_unpack_itself(image: Image) -> None:
    assert image.kernel.read_bytes()[:4] == ELF_MAGIC
