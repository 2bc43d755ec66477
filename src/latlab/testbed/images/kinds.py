"""Which kinds of images there are, and what each is made by."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from latlab.errors import UsageError
from latlab.testbed.images import board_recipe
from latlab.testbed.images.board_recipe import BOARDS
from latlab.testbed.images.recipe import CONSOLES, DDS_PROGRAMS, FLAVOURS, Recipe, guest_recipe

GUEST_KIND = "guest"
BOARD_KIND = "board"

_GUEST_CONTENT = (
    *("archive.py", "base.py", "elf.py", "kernel.py", "libraries.py", "lz4.py", "modules.py", "recipe.py", "tree.py"),
    "zstd.py",
)
CONTENT: Mapping[str, tuple[str, ...]] = {
    GUEST_KIND: _GUEST_CONTENT,
    BOARD_KIND: (
        *_GUEST_CONTENT,
        *("archives.py", "board_recipe.py", "emulator.py", "kernel_source.py", "kmod_tables.py", "mended_igb.py"),
        *("nested_image.py", "own_modules.py"),
        *(f"module_sources/{name}" for name in ("Makefile", "constant_tsc.c", "igb.patch", "svm_inject_once.c")),
    ),
}
"""The sources that decide, besides packages and agent, what is in an image."""


@dataclass(frozen=True)
class Sort:
    """What an image is for (`guest`: a virtual machine that is measured; `board`: one that holds a whole test bed), its
    kernel: one of FLAVOURS, and whether a guest's has what only measurements of DDS need."""

    kind: str
    flavour: str
    dds: bool = False

    @property
    def recipe(self) -> Recipe:
        """What it is made of."""
        if self.kind == BOARD_KIND:
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


def default_name(flavour: str | None, kind: str | None) -> str:
    """Return the ready-made image that is meant where none is named: of that flavour, else the kind's default."""
    name = f"debian-{flavour}-board" if kind == BOARD_KIND else f"debian-{flavour}"
    return name if flavour and name in READY_MADE else DEFAULTS[kind or GUEST_KIND]


def sort_of(name: str, flavour: str | None, kind: str | None) -> Sort:
    """What an image of that name is, as far as it was not said. UsageError: there is no such, or it is another."""
    ready = READY_MADE.get(name)
    if kind == BOARD_KIND and flavour is None and ready is None:
        flavour = board_recipe.FLAVOUR
    meant = ready or Sort(GUEST_KIND, "")
    chosen = Sort(kind or meant.kind, flavour or meant.flavour, meant.dds)
    if not chosen.flavour:
        raise UsageError(
            f"image {name} is none of the ready-made ones, so it needs a flavour",
            remedy=f"ready-made are {', '.join(READY_MADE)}; flavours are {', '.join(FLAVOURS)}",
        )
    if chosen.flavour not in FLAVOURS:
        raise UsageError(f"there is no flavour {chosen.flavour!r}", remedy=f"one of {', '.join(FLAVOURS)}")
    if ready and chosen.kind != ready.kind:
        raise UsageError(f"image {name} is a {ready.kind}'s, not a {chosen.kind}'s", remedy="give it another name")
    if chosen.kind == BOARD_KIND and chosen.flavour not in BOARDS:
        raise UsageError(f"no board has the flavour {chosen.flavour}", remedy=f"one of {', '.join(BOARDS)}")
    if ready and chosen != ready:
        raise UsageError(
            f"image {name} is of the flavour {ready.flavour}, not {chosen.flavour}", remedy="give it another name"
        )
    return chosen


def command_line(sort: Sort, architecture: str) -> str:
    """What the kernel of an image is told at least."""
    return f"console={CONSOLES[architecture]} {sort.recipe.command_line}"


def recipe_version(kind: str) -> str:
    """A digest of the sources an image is made by, in hexadecimal: another one may make other images."""
    sources = ((Path(__file__).parent / name).read_bytes() for name in CONTENT[kind])
    return hashlib.sha256(b"\0".join(sources)).hexdigest()
