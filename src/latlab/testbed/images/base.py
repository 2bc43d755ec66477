"""All of an image but the agent: the kernel, and the archives of programs, modules and settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from latlab.model.errors import LabError
from latlab.testbed.images.archive import DIRECTORY, Entry, archive, file, link
from latlab.testbed.images.board_recipe import NESTED_KVM
from latlab.testbed.images.emulator import PROGRAMS, emulator, newest_qemu
from latlab.testbed.images.kernel import startable
from latlab.testbed.images.modules import (
    AT_BOOT,
    IGB,
    IGB_FEATURE,
    IGB_MODULE,
    OWN_MODULES,
    Module,
    Modules,
    compiled,
    kmod_tables,
    mended_igb,
    missing_compiler,
    missing_programs,
    tables,
)
from latlab.testbed.images.packages import (
    COMPONENTS,
    Apt,
    Package,
    Say,
    fetch,
    foreign,
    machine_architecture,
    other_components,
    printed,
    unpack,
)
from latlab.testbed.images.recipe import (
    BOOT_LIST,
    BUSYBOX,
    DIRECTORIES,
    LEFT_OUT,
    LINKS,
    SETTINGS,
    SHELL,
    Parts,
    Recipe,
)
from latlab.testbed.images.tree import ELF_MAGIC, PROGRAM_FOLDERS, Tree, links, needed_libraries, without_symbols

AGENT = "usr/bin/latlab-agent"
INIT = "init"
BUSYBOX_PROGRAM = "/usr/bin/busybox"
KMOD = "kmod"
MODPROBE = "usr/sbin/modprobe"  # where the kernel itself calls it

# Folders of the scratch that are no package's.
HEADERS = ".headers"
TOOLS = ".tools"
KMOD_TABLES = ".tables"


@dataclass(frozen=True)
class Ingredients:
    """The packages an image is made of.

    programs: those of the recipe; extra: asked for by name, whole; libraries: of those and of programs; headers: what
    our own modules are compiled with; none where that is not needed or cannot be done; source: of the kernel, for the
    same. Of QEMU and its libraries there are the newest that Debian has for this release. tools: for an image of
    another architecture than this machine's, what has to run on this machine: QEMU, and what the image is made with.
    """

    recipe: Recipe
    architecture: str
    kernel: Package
    programs: tuple[Package, ...]
    extra: tuple[Package, ...]
    libraries: tuple[Package, ...]
    headers: tuple[Package, ...]
    source: Package | None
    tools: tuple[Package, ...] = ()

    @property
    def packages(self) -> tuple[Package, ...]:
        """All of them, each once."""
        both = (*self.unpacked, *self.tools)
        return (*both, self.source) if self.source else both

    @property
    def cross(self) -> str | None:
        """Debian's name of the image's architecture, where it is another than this machine's."""
        return self.architecture if self.tools else None

    @property
    def unpacked(self) -> tuple[Package, ...]:
        """Those that are unpacked; of the kernel's source only a folder is ever on the disk."""
        return tuple(dict.fromkeys((self.kernel, *self.programs, *self.extra, *self.libraries, *self.headers)))


@dataclass(frozen=True)
class Base:
    """What was made: the kernel and its version, and the archive the agent is to be added to.

    nested: the archive of what starts guests in the machine itself; None: none are. emulator: the QEMU that runs the
    machine, as files by their paths in its folder. lacking: missing module → the feature that is not available then.
    """

    kernel: bytes
    kernel_version: str
    archive: bytes
    nested: bytes | None
    emulator: Mapping[str, Entry]
    lacking: Mapping[str, str]


def find_ingredients(
    recipe: Recipe, extra: Sequence[str], cache: Path, say: Say, architecture: str = ""
) -> Ingredients:
    """What apt has today for an image of that recipe. LabError: it does not have a package.

    cache: the folder apt may use; say: gets a line for each package that exists only in an older version. architecture:
    Debian's name of the image's; this machine's if not given.
    """
    own = machine_architecture()
    architecture = architecture or own
    if architecture not in recipe.architectures:
        raise LabError(
            f"there are no such images for {architecture}",
            where="building an image",
            remedy=f"there are for {', '.join(recipe.architectures)}",
        )
    here = Apt(cache)
    is_foreign = architecture != own
    apt = foreign(cache, architecture) if is_foreign else here
    kernel = apt.kernel(*(name.format(architecture) for name in recipe.kernels))
    nested = recipe.nested or Parts()
    programs = tuple(apt.packages(recipe.parts.packages))
    of = architecture if is_foreign else None
    emulator = newest_qemu(apt, nested.packages, cache, say, of) if recipe.nested else ()
    named, named_by = (tuple(apt.packages(extra)), apt) if is_foreign else _named(apt, extra, cache, say)
    # Of a package that has files only most is left out, and so is what that would need.
    linked = tuple(one for one in programs if one.name in recipe.parts.programs)
    newer = {one.name: one for one in emulator}
    needed = {one.name: one for one in (*named_by.libraries_of(named), *apt.libraries_of(linked))}
    libraries = [needed[name] for name in sorted(needed) if name not in newer]
    compiles = recipe.nested and not missing_compiler(of)
    headers = tuple(apt.headers(kernel, here if is_foreign else None)) if compiles else ()
    mends = IGB_MODULE in recipe.features and headers and not missing_programs(of)
    # Source is the same for all.
    source = here.source(kernel) if mends else None
    tools = _tools(recipe, here, cache, say) if is_foreign else ()
    together = (*programs, *emulator)
    return Ingredients(recipe, architecture, kernel, together, named, tuple(libraries), headers, source, tools)


def _tools(recipe: Recipe, here: Apt, cache: Path, say: Say) -> tuple[Package, ...]:
    """What has to run on this machine, of its architecture. here: the machine's own apt."""
    made_with = here.packages([name for name in (BUSYBOX, KMOD) if name in recipe.parts.programs])
    runs = newest_qemu(here, recipe.emulator.packages, cache, say) if recipe.emulator else ()
    needed = {one.name: one for one in (*here.libraries_of(made_with), *made_with, *runs)}
    return tuple(needed.values())


def _named(apt: Apt, names: Sequence[str], cache: Path, say: Say) -> tuple[tuple[Package, ...], Apt]:
    """The packages that the user names, and the apt that knows them: the machine's own, or one that knows all of
    Debian's components. LabError: neither does.
    """
    if not names:
        return (), apt
    try:
        return tuple(apt.packages(names)), apt
    except LabError as error:
        try:
            wider = other_components(cache)
        except LabError as unreached:
            where = f"and Debian's other components cannot be searched ({unreached.what})"
            raise LabError(f"{error.what}; {where}", where=error.where, remedy=error.remedy) from error
        found = tuple(wider.packages(names))
    for package in found:
        component = package.section.rpartition("/")[0]
        if component in COMPONENTS:
            say(f"{package.name} is from Debian's component {component}, which has non-free software")
    return found, wider


def make_base(ingredients: Ingredients, cache: Path, scratch: Path, say: Say) -> Base:
    """The kernel and the archives. LabError: a part is missing.

    cache: where fetched packages are kept; scratch: a folder to unpack them in; say: gets a line for each thing that
    the image is made without.
    """
    recipe = ingredients.recipe
    folders = _unpacked(ingredients, cache, scratch)
    tools = _unpacked_tools(ingredients, cache, scratch / TOOLS)
    root = folders[ingredients.kernel.name]
    kernel = startable(next(root.glob("boot/vmlinu*")).read_bytes())
    modules = Modules(root)
    names, lacking = chosen_modules(modules, recipe)
    for name, feature in lacking.items():
        say(f"kernel {modules.release} has no module {name}, so the image is without this feature: {feature}")
    own: list[Module] = []
    if recipe.own_modules:
        try:
            own = _own_modules(ingredients, scratch)
        except LabError as error:
            lacking |= dict.fromkeys(OWN_MODULES, NESTED_KVM)
            ours = " and ".join(OWN_MODULES)
            say(f"modules {ours} are not built ({error.what}), so the image is without this feature: {NESTED_KVM}")
    if IGB_MODULE in recipe.features and IGB_MODULE not in lacking:
        try:
            own.append(_mended_igb(modules, ingredients, cache, scratch))
        except LabError as error:
            lacking[IGB] = IGB_FEATURE
            igb = IGB_MODULE
            say(f"module {igb} is the stock one ({error.what}), so the image is without this: {IGB_FEATURE}")
    tree = Tree(folders[one.name] for one in ingredients.unpacked if one not in ingredients.headers)
    run_here = Tree(tools.values()) if tools else tree
    programs = _programs(ingredients, folders, tree, tools or folders)
    entries = programs | _modules(modules, names, own, recipe, run_here, scratch) | _settings()
    nested, runs = None, {}
    if recipe.nested:
        parts = _parts(recipe.nested, folders)
        nested = archive(parts | needed_libraries(programs | parts, tree))
        runs_by = _parts(recipe.emulator, tools) if recipe.emulator and tools else parts
        runs = emulator(runs_by, run_here, PROGRAMS[ingredients.architecture])
    return Base(kernel, modules.release, archive(entries), nested, runs, lacking)


def chosen_modules(modules: Modules, recipe: Recipe) -> tuple[list[str], dict[str, str]]:
    """The names of the modules to take in, and those that the kernel does not have, each with what that takes away.

    LabError: it does not have one that no image can be without.
    """
    if missing := [name for name in recipe.modules if not modules.has(name)]:
        raise LabError(f"kernel {modules.release} has no module {', '.join(missing)}", where="building an image")
    wanted = (*recipe.modules, *recipe.features, *recipe.modules_if_there)
    lacking = {name: feature for name, feature in recipe.features.items() if not modules.has(name)}
    return [name for name in wanted if modules.has(name)], lacking


def agent_archive(agent: bytes, where: str) -> bytes:
    """The archive of the agent, the last one of an image. agent: the binary, from `where`. LabError: it cannot run."""
    if not agent.startswith(ELF_MAGIC) or links(agent).needed:
        raise LabError("it is not statically linked, so it cannot run in a guest", where=where, remedy="`make build`")
    return archive({AGENT: file(without_symbols(agent), executable=True), INIT: link(f"/{AGENT}")})


def _unpacked(ingredients: Ingredients, cache: Path, scratch: Path) -> dict[str, Path]:
    """The folder of each package, by its name; kernel headers belong together, in one."""
    packages = ingredients.unpacked
    shared = dict.fromkeys((one.name for one in ingredients.headers), scratch / HEADERS)
    folders = {package.name: scratch / package.name for package in packages} | shared
    for package, path in zip(packages, fetch(packages, cache), strict=True):
        unpack(path, folders[package.name])
    return folders


def _unpacked_tools(ingredients: Ingredients, cache: Path, scratch: Path) -> dict[str, Path]:
    """The folder of each package that has to run on this machine, by its name; none if the image's own run here."""
    scratch.mkdir()
    folders = {package.name: scratch / package.name for package in ingredients.tools}
    for package, path in zip(ingredients.tools, fetch(ingredients.tools, cache), strict=True):
        unpack(path, folders[package.name])
    return folders


def _own_modules(ingredients: Ingredients, scratch: Path) -> list[Module]:
    """Our own modules. LabError: they cannot be made here."""
    if missing := missing_compiler():
        raise LabError(f"{' and '.join(missing)} not on the PATH")
    if not ingredients.headers:
        raise LabError(f"apt has no headers of {ingredients.kernel.name} {ingredients.kernel.version}")
    return compiled(scratch / HEADERS, scratch)


def _mended_igb(modules: Modules, ingredients: Ingredients, cache: Path, scratch: Path) -> Module:
    """The driver that takes the stock one's place. LabError: it cannot be made here."""
    kernel = ingredients.kernel
    if missing := missing_programs(ingredients.cross):
        raise LabError(f"{' and '.join(missing)} not on the PATH")
    if not ingredients.headers:
        raise LabError(f"apt has no headers of {kernel.name} {kernel.version}")
    if not ingredients.source:
        raise LabError(f"apt has no source of {kernel.name} {kernel.version}")
    *_, stock = modules.in_order([IGB_MODULE])
    (source,) = fetch([ingredients.source], cache)
    return mended_igb(stock, source, scratch / HEADERS, scratch, ingredients.cross)


def _programs(
    ingredients: Ingredients, folders: Mapping[str, Path], tree: Tree, tools: Mapping[str, Path]
) -> dict[str, Entry]:
    """The programs, with what they read and the libraries they need; busybox for all that nothing else is there for.

    tools: folders of packages that run on this machine.
    """
    entries = _parts(ingredients.recipe.parts, folders)
    for one in ingredients.extra:
        entries |= Tree([folders[one.name]]).without(LEFT_OUT)
    entries |= needed_libraries(entries, tree)
    entries["usr/bin/sh"] = link(SHELL)
    for applet in _applets(tools[BUSYBOX]):
        if not any(f"{folder}/{applet}" in entries for folder in PROGRAM_FOLDERS):
            entries[f"usr/bin/{applet}"] = link(BUSYBOX_PROGRAM)
    entries.setdefault(MODPROBE, link(BUSYBOX_PROGRAM))
    return entries


def _parts(parts: Parts, folders: Mapping[str, Path]) -> dict[str, Entry]:
    """The programs, what they read besides, and the links, without libraries."""
    entries: dict[str, Entry] = {}
    for package in parts.packages:
        tree = Tree([folders[package]])
        for name in parts.programs.get(package, ()):
            entries |= tree.program(name)
        for pattern in parts.files.get(package, ()):
            entries |= tree.matching(pattern)
    return entries | {path: link(target) for path, target in parts.links.items()}


def _applets(folder: Path) -> list[str]:
    busybox = next(path for place in ("bin", "usr/bin") if (path := folder / place / "busybox").exists())
    return printed(str(busybox), "--list").split()


def _modules(
    modules: Modules, names: Sequence[str], own: Sequence[Module], recipe: Recipe, programs: Tree, scratch: Path
) -> dict[str, Entry]:
    """The modules in their folder, the tables modprobe reads, and the list of those to load at boot.

    own: ours, some in the place of the kernel's.
    """
    ours = {module.path for module in own}
    ordered = [*(module for module in modules.in_order(names) if module.path not in ours), *own]
    home = f"usr/lib/modules/{modules.release}"
    entries = {f"{home}/{module.path}": file(module.data) for module in ordered}
    if KMOD in recipe.parts.programs:
        made = kmod_tables(modules, ordered, programs, scratch / KMOD_TABLES)
        entries |= {f"{home}/{name}": file(data) for name, data in made.items()}
    else:
        texts = tables(ordered) | {"modules.builtin": modules.builtin}
        entries |= {f"{home}/{name}": file(text.encode()) for name, text in texts.items()}
    at_boot = [*modules.in_order(recipe.boot_modules), *(one for one in own if one.name in AT_BOOT)]
    boot = "".join(f"/{home}/{module.path}\n" for module in at_boot)
    return entries | {BOOT_LIST: file(boot.encode())}


def _settings() -> dict[str, Entry]:
    entries = dict.fromkeys(DIRECTORIES, DIRECTORY)
    entries |= {path: link(target) for path, target in LINKS.items()}
    return entries | {path: file(text.encode()) for path, text in SETTINGS.items()}
