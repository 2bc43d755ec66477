"""Building an image: only what changed since the last time is made again."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from latlab.model.errors import LabError
from latlab.testbed.agent_binary import agent_for
from latlab.testbed.images.base import Ingredients, agent_archive, find_ingredients, make_base
from latlab.testbed.images.emulator import other_emulator, qemu_of_release, qemu_version, write_files
from latlab.testbed.images.kinds import (
    DEFAULTS,
    GUEST_KIND,
    Sort,
    command_line,
    default_name,
    named_for,
    recipe_version,
    sort_of,
)
from latlab.testbed.images.packages import Package, Say, to_be_fetched
from latlab.testbed.images.store import (
    BASE,
    DESCRIPTION,
    EMULATOR,
    INITRAMFS,
    KERNEL,
    NESTED_BASE,
    NESTED_INITRAMFS,
    Image,
    digest_of,
    find_image,
    folder_name,
    home,
    in_use,
    locked,
    packages_directory,
    remove_superseded,
    room,
    size_of,
    write_description,
)
from latlab.testbed.images.with_guests import image_archive

BUILDING = ".building-"
COPIES = 2
"""What packages take unpacked stands twice while an image is made: the second time is in the archives."""


def build_image(
    name: str | None = None,
    flavour: str | None = None,
    packages: Iterable[str] = (),
    agent: Path | None = None,
    *,
    kind: str | None = None,
    architecture: str | None = None,
    emulator_from: str | None = None,
    force: bool = False,
    say: Say = lambda line: None,
) -> Image:
    """The image of that name, built unless the same was built before; it is there whole or not at all.

    name: the ready-made one of the kind if not given. flavour: one of FLAVOURS; a ready-made image has its own.
    packages: Debian packages to take in besides. agent: the binary that is the machine's first process; the installed
    one if not given. kind: `guest` or `board`; the ready-made image's own if not given, else `guest`. architecture:
    one of ARCHITECTURES; this machine's if neither given nor the ready-made image's. emulator_from: the release of
    Debian whose QEMU runs the board; the newest for this machine's release if not given. force: build it even if
    nothing changed. say: gets a line for each step. UsageError: no such kind or flavour.
    LabError: a package, what should be in one, the agent or room is not to be had.
    """
    name = named_for(name or default_name(flavour, kind), architecture)
    folder, sort = home(name), sort_of(name, flavour, kind, architecture)
    binary = agent or agent_for(sort.architecture)
    extra = tuple(sorted(set(packages)))

    def find_nested() -> Image | None:
        return _nested_image(binary, sort.architecture, say) if sort.recipe.nested else None

    with (
        in_use(find_nested, lambda image: [image.folder] if image else []) as nested,
        locked(folder, lambda: say(f"waiting for another build of {name}")),
        in_use(_made_packages_directory, lambda folder: [folder]) as cache,
    ):
        remove_superseded(folder)
        data = binary.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        # Of two apts that refresh the same lists one fails.
        with locked(cache, lambda: say("waiting for another build, which searches for packages")):
            ingredients = find_ingredients(sort.recipe, extra, cache, say, sort.architecture)
            other = qemu_of_release(emulator_from, sort.recipe, cache) if emulator_from else ()
        recipe = recipe_version(sort.kind)
        inputs = _Inputs(name, sort, extra, digest, ingredients, nested, recipe, other, emulator_from or "")
        built = find_image(name)
        if built and built.digest == inputs.digest and not force:
            return built
        try:
            with tempfile.TemporaryDirectory(dir=folder, prefix=BUILDING) as scratch:
                last = agent_archive(data, str(binary))
                return _built(inputs, None if force else built, last, Path(scratch), say)
        finally:
            remove_superseded(folder)


def _made_packages_directory() -> Path:
    folder = packages_directory()
    folder.mkdir(exist_ok=True)
    return folder


@dataclass(frozen=True)
class _Inputs:
    """All that decides what an image is.

    agent: digest of the binary; nested: the guest image that goes in; recipe: digest of the sources it is made by.
    other_qemu: the packages of the QEMU that runs the board, where it is another release's: emulator_from.
    """

    name: str
    sort: Sort
    extra: tuple[str, ...]
    agent: str
    ingredients: Ingredients
    nested: Image | None
    recipe: str
    other_qemu: tuple[Package, ...] = ()
    emulator_from: str = ""

    @property
    def versions(self) -> dict[str, str]:
        tools = {f"{one.name}:{one.architecture}": one.version for one in self.ingredients.tools}
        image = {one.name: one.version for one in self.ingredients.packages if one not in self.ingredients.tools}
        other = {f"{one.name} (runs the board)": one.version for one in self.other_qemu}
        return image | tools | other

    @cached_property
    def base(self) -> str:
        """Digest of all but the agent and the nested image."""
        flavour = self.sort.flavour
        parts = {"recipe": self.recipe, "flavour": flavour, "extra": self.extra, "packages": self.versions}
        return digest_of(parts)

    @cached_property
    def digest(self) -> str:
        return digest_of({"base": self.base, "agent": self.agent} | self.nested_digest)

    @property
    def nested_digest(self) -> dict[str, str]:
        return {"nested_image": self.nested.digest} if self.nested else {}

    @property
    def base_files(self) -> tuple[str, ...]:
        """The files that are made of packages."""
        return (KERNEL, BASE, NESTED_BASE) if self.nested else (KERNEL, BASE)

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders of files that are made of packages."""
        return (EMULATOR,) if self.nested else ()

    @property
    def emulator(self) -> str:
        """The version of the QEMU that the image has for its machine; empty if it has none."""
        packages = self.other_qemu or self.ingredients.tools or self.ingredients.packages
        return qemu_version(packages) if self.nested else ""

    @property
    def whole_files(self) -> tuple[str, ...]:
        """The files that are made of those, the agent and the nested image."""
        return (INITRAMFS, NESTED_INITRAMFS) if self.nested else (INITRAMFS,)

    @property
    def needed(self) -> int:
        """Bytes that building takes, about."""
        packages = (*self.ingredients.packages, *self.other_qemu)
        kept = (*self.ingredients.unpacked, *self.ingredients.tools, *self.other_qemu)
        unpacked = sum(package.unpacked_size for package in kept)
        return (
            to_be_fetched(packages, packages_directory()) + COPIES * unpacked + (self.nested.size if self.nested else 0)
        )


@dataclass(frozen=True)
class _Made:
    """What is known of files that are made of packages."""

    kernel_version: str
    lacking: Mapping[str, str]


def _nested_image(agent: Path, architecture: str, say: Say) -> Image:
    """The guest image that goes into a board: as it is, unless it has another agent or would be made in another way."""
    name = named_for(DEFAULTS[GUEST_KIND], architecture)
    image = find_image(name)
    if image and image.is_up_to_date(agent):
        return image
    say(f"building {name} first, for guests nested in the board")
    try:
        return build_image(name, agent=agent, say=say)
    except LabError as error:
        what = f"{name}, for guests nested in the board, is not built: {error.what}"
        raise LabError(what, where=error.where, remedy=error.remedy) from None


def _built(inputs: _Inputs, before: Image | None, last: bytes, parts: Path, say: Say) -> Image:
    """The image, in its place. before: the one that is there, of which what did not change is taken over.

    last: the archive of the agent. parts: a folder in the image's own, to work in.
    """
    made = _taken_over(before, inputs, parts)
    if made is None:
        with room(home(inputs.name), inputs.needed):
            say(f"downloading and unpacking {len(inputs.versions)} packages")
            made = _made(inputs, parts, say)
    say("writing the initial file system")
    with room(home(inputs.name), _size_of_whole(inputs, parts)):
        _write_whole(inputs, parts, last)
        return _put(inputs, parts, made)


def _made(inputs: _Inputs, parts: Path, say: Say) -> _Made:
    """Kernel and bases are in the folder, made of packages."""
    with tempfile.TemporaryDirectory(dir=parts) as unpacked:
        base = make_base(inputs.ingredients, packages_directory(), Path(unpacked), say)
    runs = base.emulator
    if inputs.other_qemu:
        architecture, cache = inputs.ingredients.architecture, packages_directory()
        with tempfile.TemporaryDirectory(dir=parts) as unpacked:
            runs = other_emulator(inputs.other_qemu, inputs.sort.recipe, architecture, cache, Path(unpacked))
    (parts / KERNEL).write_bytes(base.kernel)
    (parts / BASE).write_bytes(base.archive)
    if base.nested is not None:
        (parts / NESTED_BASE).write_bytes(base.nested)
    for folder in inputs.folders:
        write_files(runs, parts / folder)
    return _Made(base.kernel_version, base.lacking)


def _taken_over(before: Image | None, inputs: _Inputs, parts: Path) -> _Made | None:
    """Kernel and bases are in the folder, those of the image before. None: they would differ."""
    if before is None or before.base != inputs.base:
        return None
    if not all((before.folder / part).exists() for part in (*inputs.base_files, *inputs.folders)):
        return None
    for part in inputs.base_files:
        os.link(before.folder / part, parts / part)
    for folder in inputs.folders:
        shutil.copytree(before.folder / folder, parts / folder, symlinks=True, copy_function=os.link)
    return _Made(before.kernel_version, before.lacking)


def _size_of_whole(inputs: _Inputs, parts: Path) -> int:
    """Bytes of the initial file systems, less the agent."""
    base = (parts / BASE).stat().st_size
    return base + ((parts / NESTED_BASE).stat().st_size + base + inputs.nested.size if inputs.nested else 0)


def _write_whole(inputs: _Inputs, parts: Path, last: bytes) -> None:
    """Write the initial file systems into the folder. last: what ends each."""
    base = (parts / BASE).read_bytes()
    (parts / INITRAMFS).write_bytes(base + last)
    if inputs.nested:
        with (parts / NESTED_INITRAMFS).open("wb") as file:
            file.writelines((base, (parts / NESTED_BASE).read_bytes(), image_archive(inputs.nested), last))


def _put(inputs: _Inputs, parts: Path, made: _Made) -> Image:
    """The image, in its place: first its files, then, at one blow, the word that it is there."""
    folder = home(inputs.name) / folder_name(inputs.digest)
    folder.mkdir(exist_ok=True)
    for part in (*inputs.base_files, *inputs.whole_files):
        os.replace(parts / part, folder / part)
    for part in inputs.folders:
        # One that is there is of the same packages, and may be in use.
        if not (folder / part).exists():
            os.replace(parts / part, folder / part)
    image = Image(
        name=inputs.name,
        kernel=folder / KERNEL,
        initramfs=folder / INITRAMFS,
        append=command_line(inputs.sort, inputs.ingredients.architecture),
        flavour=inputs.sort.flavour,
        kernel_version=made.kernel_version,
        digest=inputs.digest,
        packages=inputs.versions,
        built=datetime.now(UTC).isoformat(timespec="seconds"),
        size=size_of(folder, inputs.sort.kind),
        extra=inputs.extra,
        agent=inputs.agent,
        recipe=inputs.recipe,
        base=inputs.base,
        kind=inputs.sort.kind,
        architecture=inputs.ingredients.architecture,
        lacking=made.lacking,
        emulator=inputs.emulator,
        emulator_from=inputs.emulator_from,
        **inputs.nested_digest,
    )
    write_description(image, parts / DESCRIPTION)
    os.replace(parts / DESCRIPTION, home(inputs.name) / DESCRIPTION)
    return image
