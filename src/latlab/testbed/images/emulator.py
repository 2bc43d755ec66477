"""The QEMU that runs boards, of this release of Debian or another: in the board's image, not installed.

Which QEMU it is decides what a board has: its model of network card, and how well virtual time repeats.
"""

from __future__ import annotations

import posixpath
import re
import stat
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from latlab.model.errors import LabError, UsageError
from latlab.testbed.images.archive import Entry, file
from latlab.testbed.images.packages import Apt, Package, Say, backports, fetch, of_release, unpack
from latlab.testbed.images.recipe import Recipe
from latlab.testbed.images.tree import Tree, links, merged, needed_libraries

PACKAGES: Mapping[str, str] = {"amd64": "qemu-system-x86", "arm64": "qemu-system-arm"}
PROGRAMS: Mapping[str, str] = {"amd64": "qemu-system-x86_64", "arm64": "qemu-system-aarch64"}
"""Debian's name of a board's architecture → the package of the QEMU that emulates it, and its program."""
PACKAGE, PROGRAM = PACKAGES["amd64"], PROGRAMS["amd64"]
REPEATS_SINCE = (10, 0)
"""The first version in which virtual time was seen to repeat to the nanosecond."""

MODULES = "usr/lib/*/qemu/*.so"
# The modules of an installed QEMU, of another version, are not its own.
START = """\
#!/bin/sh
at=$(dirname "$(readlink -f "$0")")
export QEMU_MODULE_DIR="$at/{modules}"
exec "$at/{loader}" --argv0 {program} --library-path "{libraries}" "$at/{binary}" \\
    -L "$at/usr/share/qemu" -L "$at/usr/share/seabios" "$@"
"""


def newest_qemu(
    apt: Apt, names: Sequence[str], cache: Path, say: Say, architecture: str | None = None
) -> tuple[Package, ...]:
    """The packages of those names, one of PACKAGES among them, and of the libraries that it needs. LabError: apt has
    none.

    apt: the machine's own; where its QEMU is older than REPEATS_SINCE, backports are asked. cache: a folder for that.
    say: gets a line if there are none. architecture: that of apt's packages, if it is not the machine's.
    """
    found, known_by = apt.packages(names), apt
    own = qemu_version(found)
    if _numbers(own) < REPEATS_SINCE:
        try:
            known_by = backports(cache) if architecture is None else backports(cache, architecture)
            found = known_by.packages(names)
        except LabError as error:
            since = ".".join(map(str, REPEATS_SINCE))
            say(f"boards get QEMU {own} ({error.what}); virtual time repeats to the nanosecond from {since} on")
            found, known_by = apt.packages(names), apt
    linked = [package for package in found if package.name in PACKAGES.values()]
    return (*found, *known_by.libraries_of(linked))


def qemu_version(packages: Sequence[Package]) -> str:
    """The version of the QEMU among the packages, such as 10.0.2."""
    whole = next(package.version for package in packages if package.name in PACKAGES.values())
    found = re.match(r"(?:\d+:)?(\d+(?:\.\d+)*)", whole)
    return found[1] if found else whole


def emulator(parts: Mapping[str, Entry], tree: Tree, program: str = PROGRAM) -> dict[str, Entry]:
    """All of QEMU by its paths in a folder, to be started there as `program`, wherever that folder is.

    parts: the program and what it reads; tree: has its libraries. It uses none of this machine's.
    """
    libraries = needed_libraries(parts, tree)
    entries = {**parts, **libraries}
    folders = dict.fromkeys(posixpath.dirname(path) for path in libraries)
    binary = f"usr/bin/{program}"
    interpreter = merged((links(entries[binary].data).interpreter or "").lstrip("/"))
    script = START.format(
        modules=posixpath.dirname(next((path for path in entries if fnmatchcase(path, MODULES)), MODULES)),
        loader=next(reversed(tree.followed(interpreter))),
        program=program,
        libraries=":".join(f"$at/{folder}" for folder in folders),
        binary=binary,
    )
    return {**entries, program: file(script.encode(), executable=True)}


def write_files(entries: Mapping[str, Entry], folder: Path) -> None:
    """Make the folder, and write the entries into it."""
    folder.mkdir()
    for name, entry in entries.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if stat.S_ISDIR(entry.mode):
            path.mkdir(exist_ok=True)
        elif stat.S_ISLNK(entry.mode):
            path.symlink_to(entry.data.decode())
        else:
            path.write_bytes(entry.data)
            path.chmod(stat.S_IMODE(entry.mode))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


# The QEMU of another release of Debian, for boards that need it; in the board's image, not installed.
#
# What runs on the board, QEMU for its guests included, stays as it is.


NAME = re.compile("[a-z][a-z0-9]*(-[a-z]+)*")


def qemu_of_release(release: str, recipe: Recipe, cache: Path) -> tuple[Package, ...]:
    """The packages of the QEMU that runs boards of that recipe, and of its libraries, in that release of Debian.

    cache: the folder apt may use. UsageError: the recipe is no board's, or that is no name of a release. LabError:
    there are none.
    """
    if recipe.emulator is None:
        raise UsageError("a guest's image has no emulator", remedy="--board, or no --emulator-from")
    if not NAME.fullmatch(release):
        raise UsageError(f"{release!r} is not the name of a Debian release", remedy="one such as trixie")
    apt = of_release(cache, release)
    found = apt.packages(recipe.emulator.packages)
    linked = [package for package in found if package.name in PACKAGES.values()]
    return (*found, *apt.libraries_of(linked))


def other_emulator(
    packages: Sequence[Package], recipe: Recipe, architecture: str, cache: Path, scratch: Path
) -> Mapping[str, Entry]:
    """That QEMU as files, by their paths in its folder. LabError: a part is missing.

    architecture: Debian's name of the board's. cache: where fetched packages are kept; scratch: a folder to unpack in.
    """
    assert recipe.emulator
    folders = [scratch / package.name for package in packages]
    for fetched, folder in zip(fetch(packages, cache), folders, strict=True):
        unpack(fetched, folder)
    tree = Tree(folders)
    parts: dict[str, Entry] = {}
    for names in recipe.emulator.programs.values():
        for name in names:
            parts |= tree.program(name)
    for patterns in recipe.emulator.files.values():
        for pattern in patterns:
            parts |= tree.matching(pattern)
    return emulator(parts, tree, PROGRAMS[architecture])
