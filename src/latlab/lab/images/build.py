"""Building a guest image: only what changed since the last time is made again."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from latlab.errors import UsageError
from latlab.lab.agent_binary import find_agent
from latlab.lab.images.base import Ingredients, find_ingredients, make_base, with_agent
from latlab.lab.images.image import (
    BASE,
    DESCRIPTION,
    INITRAMFS,
    KERNEL,
    Image,
    digest_of,
    folder_name,
    size_of,
    write_description,
)
from latlab.lab.images.recipe import FLAVOURS, READY_MADE, command_line, recipe_version
from latlab.lab.images.store import find_image, home, locked, packages_directory, remove_superseded

DEFAULT = "debian-cloud"
BUILDING = ".building-"

Say = Callable[[str], None]


def build_image(
    name: str = DEFAULT,
    flavour: str | None = None,
    packages: Iterable[str] = (),
    agent: Path | None = None,
    *,
    force: bool = False,
    say: Say = lambda line: None,
) -> Image:
    """The image of that name, built unless the same was built before; it is there whole or not at all.

    flavour: one of FLAVOURS; a ready-made image has its own. packages: Debian packages to take in besides. agent: the
    binary that is the guest's first process; the installed one if not given. force: build it even if nothing changed.
    say: is told what is going on, a line each time. UsageError: no such flavour. LabError: a package, what
    should be in one, or the agent is not to be had.
    """
    folder = home(name)
    chosen = _flavour(name, flavour)
    binary = agent or find_agent()
    extra = tuple(sorted(set(packages)))
    with locked(folder, lambda: say(f"waiting for another build of {name}")):
        remove_superseded(folder)
        data = binary.read_bytes()
        ingredients = find_ingredients(chosen, extra, packages_directory())
        inputs = _Inputs(name, chosen, extra, hashlib.sha256(data).hexdigest(), ingredients)
        built = find_image(name)
        if built and built.digest == inputs.digest and not force:
            return built
        with tempfile.TemporaryDirectory(dir=folder, prefix=BUILDING) as scratch:
            parts = Path(scratch)
            version = None if force else _taken_over(built, inputs, parts)
            if version is None:
                say(f"fetching and unpacking {len(inputs.versions)} packages")
                version = _made(inputs, parts)
            say("writing the initial file system")
            (parts / INITRAMFS).write_bytes(with_agent((parts / BASE).read_bytes(), data, str(binary)))
            image = _put(inputs, parts, version)
        remove_superseded(folder)
    return image


@dataclass(frozen=True)
class _Inputs:
    """All that decides what an image is. agent: digest of the binary."""

    name: str
    flavour: str
    extra: tuple[str, ...]
    agent: str
    ingredients: Ingredients
    recipe: str = field(default_factory=recipe_version)

    @property
    def versions(self) -> dict[str, str]:
        return {package.name: package.version for package in self.ingredients.packages}

    @cached_property
    def base(self) -> str:
        """Digest of all but the agent."""
        parts = {"recipe": self.recipe, "flavour": self.flavour, "extra": self.extra, "packages": self.versions}
        return digest_of(parts)

    @cached_property
    def digest(self) -> str:
        return digest_of({"base": self.base, "agent": self.agent})


def _flavour(name: str, flavour: str | None) -> str:
    """The flavour of an image of that name. UsageError: there is none, or it has another."""
    usual = READY_MADE.get(name)
    chosen = flavour or usual
    if chosen is None:
        raise UsageError(
            f"image {name} is none of the ready-made ones, so it needs a flavour",
            remedy=f"ready-made are {', '.join(READY_MADE)}; flavours are {', '.join(FLAVOURS)}",
        )
    if chosen not in FLAVOURS:
        raise UsageError(f"there is no flavour {chosen!r}", remedy=f"one of {', '.join(FLAVOURS)}")
    if usual and chosen != usual:
        raise UsageError(f"image {name} is of the flavour {usual}, not {chosen}", remedy="give it another name")
    return chosen


def _made(inputs: _Inputs, parts: Path) -> str:
    """The kernel's version; kernel and base are in the folder, made of packages."""
    unpacked = parts / "unpacked"
    unpacked.mkdir()
    base = make_base(inputs.ingredients, packages_directory(), unpacked)
    (parts / KERNEL).write_bytes(base.kernel)
    (parts / BASE).write_bytes(base.archive)
    return base.kernel_version


def _taken_over(built: Image | None, inputs: _Inputs, parts: Path) -> str | None:
    """The kernel's version; kernel and base are in the folder, those of the image before. None: they would differ."""
    if built is None or built.base != inputs.base or not (built.folder / BASE).exists():
        return None
    for part in (KERNEL, BASE):
        os.link(built.folder / part, parts / part)
    return built.kernel_version


def _put(inputs: _Inputs, parts: Path, kernel_version: str) -> Image:
    """The image, in its place: first its files, then, at one blow, the word that it is there."""
    folder = home(inputs.name) / folder_name(inputs.digest)
    folder.mkdir(exist_ok=True)
    for part in (KERNEL, BASE, INITRAMFS):
        os.replace(parts / part, folder / part)
    image = Image(
        name=inputs.name,
        kernel=folder / KERNEL,
        initramfs=folder / INITRAMFS,
        append=command_line(inputs.ingredients.architecture),
        flavour=inputs.flavour,
        kernel_version=kernel_version,
        digest=inputs.digest,
        packages=inputs.versions,
        built=datetime.now(UTC).isoformat(timespec="seconds"),
        size=size_of(folder),
        extra=inputs.extra,
        agent=inputs.agent,
        recipe=inputs.recipe,
        base=inputs.base,
    )
    write_description(image, parts / DESCRIPTION)
    os.replace(parts / DESCRIPTION, home(inputs.name) / DESCRIPTION)
    return image
