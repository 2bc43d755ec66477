"""An image's kernel modules: Debian's, our own, a patched driver, and the tables that modprobe reads."""

from __future__ import annotations

import contextlib
import gzip
import io
import lzma
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import IO

from latlab.model.errors import LabError
from latlab.testbed.images.packages import printed
from latlab.testbed.images.tree import Tree, command, module_facts

UNPACKERS: Mapping[str, Callable[[bytes], bytes]] = {
    ".ko": lambda data: data,
    ".xz": lzma.decompress,
    ".gz": gzip.decompress,
}


@dataclass(frozen=True)
class Module:
    """A module's file: `path` is where it is below the modules' folder, without the ending of a compressed one."""

    name: str
    path: str
    data: bytes

    @cached_property
    def _facts(self) -> list[tuple[str, str]]:
        return module_facts(self.data)

    @property
    def depends(self) -> list[str]:
        """Names of the modules that have to be loaded before."""
        return [spelt(name) for key, value in self._facts if key == "depends" for name in value.split(",") if name]

    @property
    def aliases(self) -> list[str]:
        """By what else the kernel asks for it, such as `rtnl-link-veth`."""
        return [value for key, value in self._facts if key == "alias"]


class Modules:
    """The modules of the kernel in an unpacked package, found by name, `-` and `_` being the same."""

    def __init__(self, root: Path) -> None:
        """root: the folder the package was unpacked in. LabError: there is no kernel's folder of modules in it."""
        self.folder = next((path for place in ("lib", "usr/lib") for path in root.glob(f"{place}/modules/*")), root)
        if self.folder == root:
            raise LabError("the kernel's package has no modules", where=str(root), remedy="another flavour has")
        self.release = self.folder.name
        self._files = {spelt(path.name.split(".ko")[0]): path for path in self.folder.glob("kernel/**/*.ko*")}
        builtin = self.folder / "modules.builtin"
        self.builtin = builtin.read_text(encoding="utf-8") if builtin.exists() else ""
        self._builtin = {spelt(Path(line).stem) for line in self.builtin.splitlines()}

    def has(self, name: str) -> bool:
        """Whether the kernel can load it, or has it built in."""
        return spelt(name) in self._files or spelt(name) in self._builtin

    def in_order(self, names: Iterable[str]) -> list[Module]:
        """The modules of these names and what they depend on, each after its own dependencies.

        What is built in needs no file. LabError: the kernel does not have one.
        """
        ordered: dict[str, Module] = {}

        def load(name: str) -> None:
            if name in ordered or name in self._builtin:
                return
            module = self._read(name)
            for dependency in module.depends:
                load(dependency)
            ordered[name] = module

        for name in names:
            load(spelt(name))
        return list(ordered.values())

    def _read(self, name: str) -> Module:
        path = self._files.get(name)
        if path is None:
            raise LabError(f"kernel {self.release} has no module {name}", where="building an image")
        unpack = UNPACKERS.get(path.suffix)
        if unpack is None:
            raise LabError(
                f"kernel {self.release} has modules compressed as {path.suffix}, which cannot be unpacked here",
                where="building an image",
                remedy=f"readable are {', '.join(UNPACKERS)}",
            )
        inside = path.relative_to(self.folder).parent / f"{path.name.split('.ko')[0]}.ko"
        return Module(name, str(inside), unpack(path.read_bytes()))


def spelt(name: str) -> str:
    """A module's name as the running kernel spells it."""
    return name.replace("-", "_")


def tables(modules: Iterable[Module]) -> dict[str, str]:
    """modules.dep and modules.alias, by their names, as depmod(8) writes them. modules: in loading order."""
    needs: dict[str, set[str]] = {}
    paths: dict[str, str] = {}
    dep, alias = [], []
    for module in modules:
        direct = [name for name in module.depends if name in paths]
        needs[module.name] = set(direct).union(*(needs[name] for name in direct))
        paths[module.name] = module.path
        # Each before what it needs itself, which is fewer.
        order = sorted(needs[module.name], key=lambda name: (-len(needs[name]), name))
        dep.append(" ".join([f"{module.path}:", *(paths[name] for name in order)]))
        alias += [f"alias {one} {module.name}" for one in module.aliases]
    return {"modules.alias": _lines(alias), "modules.dep": _lines(dep)}


def _lines(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in sorted(lines))


# Our own kernel modules, compiled with the headers of Debian's kernel by this machine's compiler.
#
# Nothing is installed. Their sources, in the folder module_sources, say what each is for.


AT_BOOT = ("constant_tsc",)
"""It is loaded before everything that reads the CPU's features."""
OWN_MODULES = (*AT_BOOT, "svm_inject_once")
SOURCES = Path(__file__).with_name("module_sources")
COMPILER = ("gcc", "make", "strip")
CROSS: Mapping[str, tuple[str, str]] = {"amd64": ("x86", "x86_64-linux-gnu-"), "arm64": ("arm64", "aarch64-linux-gnu-")}
"""Debian's name of an architecture → the kernel's, and how the names begin of a compiler and its tools for it."""
INCLUDED = "include /usr/src/"


def missing_compiler(cross: str | None = None) -> list[str]:
    """The programs it takes that are not on this machine. cross: the architecture, if it is not this machine's."""
    prefix = CROSS[cross][1] if cross else ""
    programs = (program if program == "make" else f"{prefix}{program}" for program in COMPILER)
    return [program for program in programs if not shutil.which(program)]


def compiled(headers: Path, scratch: Path) -> list[Module]:
    """The modules. LabError: they cannot be compiled.

    headers: the folder the packages of headers were unpacked in; scratch: a folder to work in.
    """
    folder = scratch / SOURCES.name
    shutil.copytree(SOURCES, folder)
    return [Module(path.stem, f"extra/{path.name}", path.read_bytes()) for path in built(headers, folder, OWN_MODULES)]


def built(headers: Path, folder: Path, names: Sequence[str], cross: str | None = None) -> list[Path]:
    """The modules of these names, made in the folder of the sources that are there. LabError: they do not compile.

    cross: Debian's name of the architecture they are for, if it is not this machine's.
    """
    tree = _own_headers(headers)
    makefile = tree / "Makefile"
    # It names the headers that all kernels of that version share by where they would be installed.
    makefile.write_text(makefile.read_text(encoding="utf-8").replace(INCLUDED, f"include {headers}/usr/src/"))
    # What debuggers read is taken out again. What describes types, made by pahole, is for tracing.
    without = ("CONFIG_DEBUG_INFO=", "CONFIG_DEBUG_INFO_BTF_MODULES=")
    # Warnings name the source's file: not by where it was compiled.
    same = f"KCFLAGS=-ffile-prefix-map={folder}/="
    kernels, prefix = CROSS[cross] if cross else ("", "")
    crossed = (f"ARCH={kernels}", f"CROSS_COMPILE={prefix}") if cross else ()
    printed("make", "-C", str(tree), f"M={folder}", f"-j{os.cpu_count() or 1}", *without, same, *crossed, "modules")
    paths = [folder / f"{name}.ko" for name in names]
    # Their build's number differs with the folder they were compiled in.
    printed(f"{prefix}strip", "--strip-debug", "--remove-section=.note.gnu.build-id", *map(str, paths))
    return paths


def _own_headers(headers: Path) -> Path:
    """The folder of the headers that are this kernel's alone: it has its configuration."""
    found = next(headers.glob("usr/src/*/.config"), None)
    if found is None:
        raise LabError("the packages of kernel headers have no configuration", where="building an image")
    return found.parent


# A folder of the kernel's source, out of Debian's package of it: nothing else of that is ever on the disk unpacked.
# To unpack the package as far as the folder takes ten seconds and more of CPU time: the folder is kept next to it, for
# other images with this kernel.


SOURCE_ARCHIVE = "./usr/src/linux-source-*.tar.xz"
PIECE = 1 << 20


def source_files(package: Path, folder: str) -> dict[str, bytes]:
    """The files right in a folder of the source, such as drivers/net, by name. LabError: the package has none there.

    package: the file of linux-source-…; it is read as far as the folder's end, as it holds a gigabyte and a half.
    """
    kept = package.with_name(f"{package.stem}-{folder.replace('/', '-')}.tar")
    with contextlib.suppress(FileNotFoundError, tarfile.TarError), tarfile.open(kept) as whole:
        return dict(_below(whole, folder))
    files = _unpacked_files(package, folder)
    with tempfile.TemporaryDirectory(dir=package.parent, prefix=".keeping-") as scratch:
        part = Path(scratch) / kept.name
        with tarfile.open(part, "w") as whole:
            for name, data in files.items():
                member = tarfile.TarInfo(f"{package.stem}/{folder}/{name}")
                member.size = len(data)
                whole.addfile(member, io.BytesIO(data))
        os.replace(part, kept)
    return files


def _unpacked_files(package: Path, folder: str) -> dict[str, bytes]:
    command = ("dpkg-deb", "--fsys-tarfile", str(package))
    files: dict[str, bytes] = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as dpkg:
        assert dpkg.stdout
        try:
            files = dict(_files(dpkg.stdout, folder))
        except (tarfile.TarError, lzma.LZMAError, EOFError):
            pass  # it is not whole, or no package
        finally:
            dpkg.kill()
    if not files:
        remedy = f"delete {package}: it is downloaded again"
        raise LabError(f"{package.name} has no complete {folder}", where="building an image", remedy=remedy)
    return files


def _files(content: IO[bytes], folder: str) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=content, mode="r|", bufsize=PIECE) as outer:
        for member in outer:
            archive = outer.extractfile(member) if fnmatchcase(member.name, SOURCE_ARCHIVE) else None
            if archive:
                # tarfile's own way to unpack a stream takes five times as long.
                with lzma.open(archive) as plain, tarfile.open(fileobj=plain, mode="r|", bufsize=PIECE) as inner:
                    yield from _below(inner, folder)
                return


def _below(source: tarfile.TarFile, folder: str) -> Iterator[tuple[str, bytes]]:
    reached = False
    for member in source:
        # The first part is the source's own name.
        path = PurePosixPath(*PurePosixPath(member.name).parts[1:])
        if str(path.parent) == folder and member.isfile():
            reached = True
            file = source.extractfile(member)
            assert file
            yield path.name, file.read()
        elif reached and not path.is_relative_to(folder):
            return  # what is in one folder stands together


# The driver of QEMU's network card igb, patched: the kernel's own source with a patch of ours, for PTP in hardware.
#
# What is wrong without, and how it is put right, stands in the patch. The stock driver serves where this cannot be
# made.


IGB_MODULE = "igb"
IGB = "igb (patched)"
"""What an image with the stock driver is made without."""
IGB_FEATURE = "hardware timestamps of received packets and frequency adjustment on NICs of the model igb"
IGB_FOLDER = "drivers/net/ethernet/intel/igb"
IGB_PATCH = SOURCES / "igb.patch"


def missing_programs(cross: str | None = None) -> list[str]:
    """The programs it takes that are not on this machine. cross: the architecture, if it is not this machine's."""
    return [*missing_compiler(cross), *(program for program in ("patch",) if not shutil.which(program))]


def mended_igb(stock: Module, source: Path, headers: Path, scratch: Path, cross: str | None = None) -> Module:
    """The driver in the stock one's place. LabError: the patch does not fit the source, or it cannot be compiled.

    source: the file of the package of the kernel's source; headers: the folder the packages of headers were unpacked
    in; scratch: a folder to work in; cross: the architecture, if it is not this machine's.
    """
    folder = scratch / IGB_MODULE
    folder.mkdir()
    for name, data in source_files(source, IGB_FOLDER).items():
        (folder / name).write_bytes(data)
    apply_patch(folder)
    (path,) = built(headers, folder, [stock.name], cross)
    return replace(stock, data=path.read_bytes())


def apply_patch(folder: Path) -> None:
    """Patch the driver's source in the folder. LabError: it is not what the patch is for."""
    try:
        # Lines around a change that differ may have another meaning.
        printed("patch", "--batch", "--forward", "--fuzz=0", "-p1", "-d", str(folder), "-i", str(IGB_PATCH))
    except LabError:
        what = f"the patch {IGB_PATCH.name} does not apply to this kernel's {IGB_FOLDER}"
        raise LabError(what, where="building an image") from None


# The tables that kmod's modprobe reads, made by its own depmod(8), which runs as it was unpacked.


DEPMOD = "usr/sbin/depmod"
BUILT_IN = ("modules.builtin", "modules.builtin.modinfo")
# What it writes besides is for compilers and for programs that make device nodes.
TABLES = ("alias", "alias.bin", "builtin", "builtin.bin", "builtin.alias.bin", "dep", "dep.bin", "softdep")


def kmod_tables(modules: Modules, kept: Iterable[Module], programs: Tree, scratch: Path) -> dict[str, bytes]:
    """The tables of the modules that are kept, and of what is built in, by their names.

    programs: has kmod and its libraries; scratch: a folder to work in. LabError: depmod failed.
    """
    folder = scratch / "lib/modules" / modules.release
    for module in kept:
        path = folder / module.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(module.data)
    for name in BUILT_IN:
        if (modules.folder / name).exists():
            (folder / name).write_bytes((modules.folder / name).read_bytes())
    (folder / "modules.order").touch()
    printed(*command(DEPMOD, programs), "-b", str(scratch), modules.release)
    names = (f"modules.{name}" for name in TABLES)
    return {name: (folder / name).read_bytes() for name in names if (folder / name).exists()}
