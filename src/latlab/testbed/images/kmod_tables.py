"""The tables that kmod's modprobe reads, made by its own depmod(8), which runs as it was unpacked."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from latlab.testbed.images.libraries import command
from latlab.testbed.images.modules import Module, Modules
from latlab.testbed.images.tools import printed
from latlab.testbed.images.tree import Tree

DEPMOD = "usr/sbin/depmod"
BUILT_IN = ("modules.builtin", "modules.builtin.modinfo")
# What it writes besides is for compilers and for programs that make device nodes.
TABLES = ("alias", "alias.bin", "builtin", "builtin.bin", "builtin.alias.bin", "dep", "dep.bin", "softdep")


def kmod_tables(modules: Modules, kept: Iterable[Module], programs: Tree, scratch: Path) -> dict[str, bytes]:
    """The tables of the modules that are kept, and of what is built in, by their names.

    programs: has kmod and its libraries; scratch: a folder to work in. LabError: depmod failed.
    """
    folder = scratch / "lib/modules" / modules.release
    for module in kept:
        path = folder / module.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(module.data)
    for name in BUILT_IN:
        if (modules.folder / name).exists():
            (folder / name).write_bytes((modules.folder / name).read_bytes())
    (folder / "modules.order").touch()
    printed(*command(DEPMOD, programs), "-b", str(scratch), modules.release)
    names = (f"modules.{name}" for name in TABLES)
    return {name: (folder / name).read_bytes() for name in names if (folder / name).exists()}
