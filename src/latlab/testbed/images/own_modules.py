"""Our own kernel modules, compiled with the headers of Debian's kernel by this machine's compiler.

Nothing is installed. Their sources, in the folder module_sources, say what each is for.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from latlab.model.errors import LabError
from latlab.testbed.images.modules import Module
from latlab.testbed.images.tools import printed

AT_BOOT = ("constant_tsc",)
"""It is loaded before everything that reads the CPU's features."""
NAMES = (*AT_BOOT, "svm_inject_once")
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
    return [Module(path.stem, f"extra/{path.name}", path.read_bytes()) for path in built(headers, folder, NAMES)]


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
