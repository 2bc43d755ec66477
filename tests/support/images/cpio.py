"""Reading an initial file system, so that tests see what is in it."""

from __future__ import annotations

import posixpath
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from latlab.testbed.images import Image
from latlab.testbed.images.recipe import LINKS
from latlab.testbed.images.tree import ELF_MAGIC, links


@dataclass(frozen=True)
class Found:
    """An entry of an archive, with the numbers of its header."""

    name: str
    inode: int
    mode: int
    uid: int
    gid: int
    mtime: int
    data: bytes


def read(archives: bytes) -> Iterator[Found]:
    """The entries of archives of the format newc that follow one another."""
    at = 0
    while at < len(archives):
        assert archives[at : at + 6] == b"070701", f"no header at {at}"
        fields = [int(archives[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
        inode, mode, uid, gid, _, mtime, size, *_, name_size, _ = fields
        start = at + 110
        data = _aligned(start + name_size)
        name = archives[start : start + name_size - 1].decode()
        at = _aligned(data + size)
        if name != "TRAILER!!!":
            yield Found(name, inode, mode, uid, gid, mtime, archives[data : data + size])


def _aligned(at: int) -> int:
    return (at + 3) & ~3


def at(found: dict[str, Found], path: str) -> Found:
    """What is at the path, links followed."""
    for _ in range(40):
        top, _, rest = path.partition("/")
        path = f"{LINKS[top]}/{rest}" if top in LINKS else path
        one = found[path]
        if not stat.S_ISLNK(one.mode):
            return one
        path = posixpath.normpath(posixpath.join("/", posixpath.dirname(path), one.data.decode())).lstrip("/")
    raise AssertionError(f"{path}: links without end")


def modules_dep(found: dict[str, Found], image: Image) -> dict[str, list[str]]:
    """Module → what is to be loaded before, the last one first; both as paths below the modules' folder."""
    lines = found[f"usr/lib/modules/{image.kernel_version}/modules.dep"].data.decode().splitlines()
    return {line.split(":")[0]: line.split(":")[1].split() for line in lines}


def dynamic_programs(found: dict[str, Found]) -> set[str]:
    """The programs that need libraries; each is there, where the loader looks."""
    programs = [one for one in found.values() if stat.S_ISREG(one.mode) and one.data.startswith(ELF_MAGIC)]
    linked = {one.name: links(one.data) for one in programs if "/modules/" not in one.name}
    (folder,) = {posixpath.dirname(name) for name in found if posixpath.basename(name) == "libc.so.6"}
    for name, needs in linked.items():
        for library in needs.needed:
            assert at(found, f"{folder}/{library}").data.startswith(ELF_MAGIC), f"{name} needs {library}"
        if needs.interpreter:
            assert at(found, needs.interpreter.lstrip("/")).mode & 0o111
    return {name for name, needs in linked.items() if needs.interpreter}
