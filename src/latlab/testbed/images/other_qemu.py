"""The QEMU of another release of Debian, for boards that need it; in the board's image, not installed.

What runs on the board, QEMU for its guests included, stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from latlab.model.errors import UsageError
from latlab.testbed.images.archive import Entry
from latlab.testbed.images.archives import of_release
from latlab.testbed.images.emulator import PACKAGES, PROGRAMS, emulator
from latlab.testbed.images.packages import Package, fetch, unpack
from latlab.testbed.images.recipe import Recipe
from latlab.testbed.images.tree import Tree

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
    for file, folder in zip(fetch(packages, cache), folders, strict=True):
        unpack(file, folder)
    tree = Tree(folders)
    parts: dict[str, Entry] = {}
    for names in recipe.emulator.programs.values():
        for name in names:
            parts |= tree.program(name)
    for patterns in recipe.emulator.files.values():
        for pattern in patterns:
            parts |= tree.matching(pattern)
    return emulator(parts, tree, PROGRAMS[architecture])
