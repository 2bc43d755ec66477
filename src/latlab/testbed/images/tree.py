"""What unpacked packages have, by the path it gets in the image: Debian's merged /usr, links kept as links."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

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
