"""Which kinds of images there are, and what each is made by."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from latlab.model.errors import UsageError
from latlab.testbed.images import board_recipe
from latlab.testbed.images.board_recipe import BOARDS
from latlab.testbed.images.recipe import CONSOLES, DDS_PROGRAMS, FLAVOURS, Recipe, guest_recipe

GUEST_KIND = "guest"
BOARD_KIND = "board"

_GUEST_CONTENT = ("archive.py", "base.py", "kernel.py", "modules.py", "recipe.py", "tree.py")
CONTENT: Mapping[str, tuple[str, ...]] = {
    GUEST_KIND: _GUEST_CONTENT,
    BOARD_KIND: (
        *_GUEST_CONTENT,
        *("board_recipe.py", "emulator.py", "packages.py", "with_guests.py"),
        *(f"module_sources/{name}" for name in ("Makefile", "constant_tsc.c", "igb.patch", "svm_inject_once.c")),
    ),
}
"""The sources that decide, besides packages and agent, what is in an image."""


@dataclass(frozen=True)
class Sort:
    """What an image is for (`guest`: a virtual machine that is measured; `board`: one that holds a whole test bed), its
    kernel: one of FLAVOURS, and whether a guest's has what only measurements of DDS need.

    architecture: Debian's name of it; empty: this machine's.
    """

    kind: str
    flavour: str
    dds: bool = False
    architecture: str = ""

    @property
    def recipe(self) -> Recipe:
        """What it is made of."""
        if self.kind == BOARD_KIND:
            if self.architecture:
                return board_recipe.board_recipe(self.flavour, self.architecture)
            return BOARDS[self.flavour]
        return guest_recipe(self.flavour, DDS_PROGRAMS if self.dds else None)


READY_MADE: Mapping[str, Sort] = {
    **{f"debian-{flavour}": Sort(GUEST_KIND, flavour) for flavour in FLAVOURS},
    "debian-rt-dds": Sort(GUEST_KIND, "rt", dds=True),
    **{f"debian-{flavour}-board": Sort(BOARD_KIND, flavour) for flavour in BOARDS},
}
"""The images one need not describe."""

DEFAULTS = {GUEST_KIND: "debian-cloud", BOARD_KIND: "debian-rt-board"}
"""The image of a kind that is meant where none is named."""


ARM64 = "arm64"
ARCHITECTURES = ("amd64", ARM64)
"""Debian's names of those that images are made for."""
_ARM64_NAME = f"-{ARM64}"


def named_for(name: str, architecture: str | None) -> str:
    """The name of the ready-made image for that architecture; every other name stays."""
    return f"{name}{_ARM64_NAME}" if architecture == ARM64 and name in READY_MADE else name


def ready_made(name: str) -> Sort | None:
    """What the ready-made image of that name is, for this machine's architecture or by its name for arm64."""
    plain = name.removesuffix(_ARM64_NAME)
    found = READY_MADE.get(plain)
    return replace(found, architecture=ARM64) if found and plain != name else found


def default_name(flavour: str | None, kind: str | None) -> str:
    """Return the ready-made image that is meant where none is named: of that flavour, else the kind's default."""
    name = f"debian-{flavour}-board" if kind == BOARD_KIND else f"debian-{flavour}"
    return name if flavour and name in READY_MADE else DEFAULTS[kind or GUEST_KIND]


def sort_of(name: str, flavour: str | None, kind: str | None, architecture: str | None = None) -> Sort:
    """What an image of that name is, as far as it was not said. UsageError: there is no such, or it is another."""
    if architecture not in (None, *ARCHITECTURES):
        raise UsageError(f"there is no image for {architecture!r}", remedy=f"one of {', '.join(ARCHITECTURES)}")
    ready = ready_made(name)
    if kind == BOARD_KIND and flavour is None and ready is None:
        flavour = board_recipe.FLAVOUR
    meant = ready or Sort(GUEST_KIND, "")
    # What is made for amd64 is made on it, as ever.
    of = ARM64 if architecture == ARM64 else meant.architecture
    chosen = Sort(kind or meant.kind, flavour or meant.flavour, meant.dds, of)
    if not chosen.flavour:
        raise UsageError(
            f"image {name} is not a ready-made one, so it needs a flavour",
            remedy=f"ready-made are {', '.join(READY_MADE)}; flavours are {', '.join(FLAVOURS)}",
        )
    if chosen.flavour not in FLAVOURS:
        raise UsageError(f"there is no flavour {chosen.flavour!r}", remedy=f"one of {', '.join(FLAVOURS)}")
    if ready and chosen.kind != ready.kind:
        raise UsageError(f"image {name} is a {ready.kind}'s, not a {chosen.kind}'s", remedy="choose another name")
    if chosen.kind == BOARD_KIND and chosen.flavour not in BOARDS:
        raise UsageError(f"no board has the flavour {chosen.flavour}", remedy=f"one of {', '.join(BOARDS)}")
    if ready and architecture and architecture != (ready.architecture or ARCHITECTURES[0]):
        raise UsageError(f"image {name} is for {ready.architecture or 'amd64'}", remedy="choose another name")
    if ready and chosen != ready:
        raise UsageError(
            f"image {name} is of the flavour {ready.flavour}, not {chosen.flavour}", remedy="choose another name"
        )
    return chosen


def command_line(sort: Sort, architecture: str) -> str:
    """The minimum kernel command line of an image."""
    return f"console={CONSOLES[architecture]} {sort.recipe.command_line}"


def recipe_version(kind: str) -> str:
    """A digest of the sources an image is made by, in hexadecimal: another one may make other images."""
    sources = ((Path(__file__).parent / name).read_bytes() for name in CONTENT[kind])
    return hashlib.sha256(b"\0".join(sources)).hexdigest()
