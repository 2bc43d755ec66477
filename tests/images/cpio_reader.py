"""Reading an initial file system, so that tests see what is in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


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
