"""Our own kernel module, compiled with the headers of Debian's kernel by this machine's compiler; nothing is installed.

Its source, in the folder constant_tsc, says what it is for.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from latlab.errors import LabError
from latlab.lab.images.modules import Module
from latlab.lab.images.tools import printed

NAME = "constant_tsc"
SOURCE = Path(__file__).with_name(NAME)
COMPILER = ("gcc", "make", "strip")
INCLUDED = "include /usr/src/"


def missing_compiler() -> list[str]:
    """The programs it takes that are not on this machine."""
    return [program for program in COMPILER if not shutil.which(program)]


def compiled(headers: Path, scratch: Path) -> Module:
    """The module. LabError: it cannot be compiled.

    headers: the folder the packages of headers were unpacked in; scratch: a folder to work in.
    """
    tree = _own_headers(headers)
    makefile = tree / "Makefile"
    # It names the headers that all kernels of that version share by where they would be installed.
    makefile.write_text(makefile.read_text(encoding="utf-8").replace(INCLUDED, f"include {headers}/usr/src/"))
    folder = scratch / NAME
    shutil.copytree(SOURCE, folder)
    # What describes its types, made by a program of its own (pahole), is for tracing.
    printed("make", "-C", str(tree), f"M={folder}", "CONFIG_DEBUG_INFO_BTF_MODULES=", "modules")
    path = folder / f"{NAME}.ko"
    # Its build's number differs with the folder it was compiled in.
    printed("strip", "--strip-debug", "--remove-section=.note.gnu.build-id", str(path))
    return Module(NAME, f"extra/{NAME}.ko", path.read_bytes())


def _own_headers(headers: Path) -> Path:
    """The folder of the headers that are this kernel's alone: it has its configuration."""
    found = next(headers.glob("usr/src/*/.config"), None)
    if found is None:
        raise LabError("the packages of kernel headers have no configuration", where="building an image")
    return found.parent
