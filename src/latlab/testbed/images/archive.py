"""An initial file system as the kernel unpacks it: a cpio archive of format newc, the same bytes for the same entries.

Format: Documentation/driver-api/early-userspace/buffer-format.rst of the kernel. Archives may follow one another.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

TRAILER = "TRAILER!!!"


@dataclass(frozen=True)
class Entry:
    """A file, a directory or a symbolic link. mode: as of stat(2); data: a file's bytes, or where a link leads."""

    mode: int
    data: bytes = b""


DIRECTORY = Entry(stat.S_IFDIR | 0o755)


def file(data: bytes, *, executable: bool = False) -> Entry:
    """A file of root's that all may read."""
    return Entry(stat.S_IFREG | (0o755 if executable else 0o644), data)


def link(target: str) -> Entry:
    """A symbolic link to `target`."""
    return Entry(stat.S_IFLNK | 0o777, target.encode())


def archive(entries: Mapping[str, Entry]) -> bytes:
    """The entries as an archive; directories they are in are made. Names are relative to the root.

    Sorted, all root's, without times and with inode numbers counted from 1.
    """
    parents = {str(parent) for name in entries for parent in PurePosixPath(name).parents} - {"."}
    whole = dict.fromkeys(parents, DIRECTORY) | dict(entries)
    # A directory's name is the beginning of its contents' names, so it comes before them.
    return b"".join([*_records(sorted(whole.items())), *_record(0, TRAILER, Entry(0))])


def _records(entries: list[tuple[str, Entry]]) -> Iterator[bytes]:
    for number, (name, entry) in enumerate(entries, start=1):
        yield from _record(number, name, entry)


def _record(number: int, name: str, entry: Entry) -> Iterator[bytes]:
    encoded = name.encode() + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    # inode, mode, uid, gid, links, time, size, device and special device (major, minor), length of the name, checksum
    fields = (number, entry.mode, 0, 0, links, 0, len(entry.data), 0, 0, 0, 0, len(encoded), 0)
    yield _padded(b"070701" + b"".join(b"%08X" % field for field in fields) + encoded)
    yield _padded(entry.data)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
