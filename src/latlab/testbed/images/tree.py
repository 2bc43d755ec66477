"""What unpacked packages have, by the path it gets in the image, and the shared libraries that programs need."""

from __future__ import annotations

import io
import os
import posixpath
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.segments import InterpSegment

from latlab.model.errors import LabError
from latlab.testbed.images.archive import DIRECTORY, Entry, file, link
from latlab.testbed.images.recipe import LINKS

LINKS_AT_MOST = 40
PROGRAM_FOLDERS = ("usr/bin", "usr/sbin")
LIBRARY_FOLDER = "usr/lib"


class Tree:
    """The files, directories and links of some unpacked packages. Paths are such as usr/bin/ip."""

    def __init__(self, folders: Iterable[Path]) -> None:
        """folders: a folder a package; of a path in several the first counts."""
        self._found: dict[str, Path] = {}
        for folder in folders:
            for path in _below(folder):
                self._found.setdefault(merged(path.relative_to(folder).as_posix()), path)
        libraries = [path for path in self._found if path.startswith(LIBRARY_FOLDER)]
        # The loader looks into the folder of the architecture first, which is the least deep.
        libraries.sort(key=lambda path: (path.count("/"), path), reverse=True)
        self._libraries = {posixpath.basename(path): path for path in libraries}

    def entry(self, path: str) -> Entry:
        """What is at the path. KeyError: nothing is."""
        found = self._found[path]
        if found.is_symlink():
            return link(os.readlink(found))
        if found.is_dir():
            return DIRECTORY
        return file(found.read_bytes(), executable=bool(found.stat().st_mode & 0o100))

    def place(self, path: str) -> Path:
        """Where on this machine is what is at the path, links followed inside the packages. LabError: nothing is."""
        return self._found[next(reversed(self.followed(path)))]

    def matching(self, pattern: str) -> dict[str, Entry]:
        """What is at the paths that match; `*` stands for any number of folders, too."""
        return {path: self.entry(path) for path in self._found if fnmatchcase(path, pattern)}

    def without(self, patterns: Iterable[str]) -> dict[str, Entry]:
        """All but what matches one of the patterns."""
        left_out = tuple(patterns)
        kept = (path for path in self._found if not any(fnmatchcase(path, pattern) for pattern in left_out))
        return {path: self.entry(path) for path in kept}

    def program(self, name: str) -> dict[str, Entry]:
        """The program of that name, with the links that lead to it. LabError: there is none."""
        places = [f"{folder}/{name}" for folder in PROGRAM_FOLDERS if f"{folder}/{name}" in self._found]
        if not places:
            raise LabError(f"its package has no program {name}", where="building an image")
        return {path: entry for place in places for path, entry in self.followed(place).items()}

    def library(self, name: str) -> str | None:
        """Where the shared library of that file name is; None if it is nowhere."""
        return self._libraries.get(name)

    def followed(self, path: str) -> dict[str, Entry]:
        """What is at the path, and, where that is a link, all it leads to. LabError: it leads nowhere."""
        found: dict[str, Entry] = {}
        while path not in found and len(found) < LINKS_AT_MOST:
            if path not in self._found:
                raise LabError(f"the packages have no /{path}, a target of their links", where="building an image")
            found[path] = self.entry(path)
            if not self._found[path].is_symlink():
                break
            target = found[path].data.decode()
            path = merged(posixpath.normpath(posixpath.join("/", posixpath.dirname(path), target)).lstrip("/"))
        return found


def merged(path: str) -> str:
    """Where a path of a package is once /bin, /lib and their like are links into /usr."""
    top, slash, rest = path.partition("/")
    return f"{LINKS[top]}/{rest}" if slash and top in LINKS else LINKS.get(path, path)


def _below(folder: Path) -> Iterator[Path]:
    for at, directories, files in os.walk(folder):
        for name in sorted([*directories, *files]):
            yield Path(at) / name


# What a program, a library or a kernel module says of itself in its ELF headers.


ELF_MAGIC = b"\x7fELF"

# Of the ELF header of a 64-bit file: the place of the section headers, and their size, number and names.
SECTION_HEADERS = 0x28
SECTION_COUNTS = 0x3A


@dataclass(frozen=True)
class Links:
    """What the loader needs to start a file. needed: names of libraries; interpreter: path of the loader, or None."""

    needed: tuple[str, ...]
    interpreter: str | None


def links(data: bytes) -> Links:
    """What an ELF file is linked with: nothing, for a static one."""
    needed: list[str] = []
    interpreter = None
    for segment in ELFFile(io.BytesIO(data)).iter_segments():
        if isinstance(segment, InterpSegment):
            interpreter = str(segment.get_interp_name())
        elif isinstance(segment, DynamicSegment):
            needed += [tag.needed for tag in segment.iter_tags("DT_NEEDED")]  # type: ignore[attr-defined]
    return Links(tuple(needed), interpreter)


def module_facts(data: bytes) -> list[tuple[str, str]]:
    """What a kernel module says of itself, as (key, value): `depends`, any number of `alias`, and more."""
    section = ELFFile(io.BytesIO(data)).get_section_by_name(".modinfo")
    lines = section.data().decode(errors="replace").split("\0") if section else []
    return [(key, value) for key, equals, value in (line.partition("=") for line in lines) if equals]


def without_symbols(data: bytes) -> bytes:
    """A 64-bit program without what is there for debuggers only: all that is in none of its segments."""
    elf = ELFFile(io.BytesIO(data))
    header = elf.header
    ends = [segment["p_offset"] + segment["p_filesz"] for segment in elf.iter_segments()]
    end = max([header["e_phoff"] + header["e_phnum"] * header["e_phentsize"], *ends])
    order = "<" if elf.little_endian else ">"
    kept = bytearray(data[:end])
    struct.pack_into(f"{order}Q", kept, SECTION_HEADERS, 0)
    struct.pack_into(f"{order}HHH", kept, SECTION_COUNTS, header["e_shentsize"], 0, 0)
    return bytes(kept)


# Which shared libraries programs need, found in unpacked packages, never on the machine that builds.


def needed_libraries(entries: Mapping[str, Entry], tree: Tree) -> dict[str, Entry]:
    """The libraries the entries' programs are linked with, their loader among them, and those libraries' own.

    LabError: no unpacked package has one.
    """
    found: dict[str, Entry] = {}
    waiting = [(name, entry) for name, entry in sorted(entries.items()) if _is_elf(entry)]
    while waiting:
        name, entry = waiting.pop()
        for path in _paths(name, links(entry.data), tree):
            for place, part in tree.followed(path).items():
                if place not in found and place not in entries:
                    found[place] = part
                    if _is_elf(part):
                        waiting.append((place, part))
    return found


def command(path: str, tree: Tree) -> tuple[str, ...]:
    """The beginning of a command line that runs the packages' program at the path where it was unpacked.

    With the packages' own loader and libraries, whatever this machine has. LabError: one is missing.
    """
    program = tree.place(path)
    needed = needed_libraries({path: file(program.read_bytes())}, tree)
    folders = dict.fromkeys(str(tree.place(library).parent) for library in needed)
    interpreter = links(program.read_bytes()).interpreter or ""
    loader = tree.place(merged(interpreter.lstrip("/")))
    return (str(loader), "--argv0", path, "--library-path", ":".join(folders), str(program))


def _paths(name: str, linked: Links, tree: Tree) -> Iterator[str]:
    """Where what a file is linked with is in the image."""
    if linked.interpreter:
        yield merged(linked.interpreter.lstrip("/"))
    for library in linked.needed:
        path = tree.library(library)
        if path is None:
            raise LabError(
                f"/{name} needs {library}, which none of its dependencies provides",
                where="building an image",
                remedy="add the package that provides it: --package",
            )
        yield path


def _is_elf(entry: Entry) -> bool:
    return entry.data.startswith(ELF_MAGIC)
