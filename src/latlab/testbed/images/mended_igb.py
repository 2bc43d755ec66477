"""The driver of QEMU's network card igb, patched: the kernel's own source with a patch of ours, for PTP in hardware.

What is wrong without, and how it is put right, stands in the patch. The stock driver serves where this cannot be made.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from latlab.model.errors import LabError
from latlab.testbed.images.kernel_source import source_files
from latlab.testbed.images.modules import Module
from latlab.testbed.images.own_modules import SOURCES, built, missing_compiler
from latlab.testbed.images.tools import printed

MODULE = "igb"
NAME = "igb (mended)"
"""What an image with the stock driver is made without."""
FEATURE = "hardware timestamps of received packets and frequency adjustment on NICs of the model igb"
FOLDER = "drivers/net/ethernet/intel/igb"
PATCH = SOURCES / "igb.patch"


def missing_programs(cross: str | None = None) -> list[str]:
    """The programs it takes that are not on this machine. cross: the architecture, if it is not this machine's."""
    return [*missing_compiler(cross), *(program for program in ("patch",) if not shutil.which(program))]


def mended(stock: Module, source: Path, headers: Path, scratch: Path, cross: str | None = None) -> Module:
    """The driver in the stock one's place. LabError: the patch does not fit the source, or it cannot be compiled.

    source: the file of the package of the kernel's source; headers: the folder the packages of headers were unpacked
    in; scratch: a folder to work in; cross: the architecture, if it is not this machine's.
    """
    folder = scratch / MODULE
    folder.mkdir()
    for name, data in source_files(source, FOLDER).items():
        (folder / name).write_bytes(data)
    apply_patch(folder)
    (path,) = built(headers, folder, [stock.name], cross)
    return replace(stock, data=path.read_bytes())


def apply_patch(folder: Path) -> None:
    """Patch the driver's source in the folder. LabError: it is not what the patch is for."""
    try:
        # Lines around a change that differ may have another meaning.
        printed("patch", "--batch", "--forward", "--fuzz=0", "-p1", "-d", str(folder), "-i", str(PATCH))
    except LabError:
        what = f"the patch {PATCH.name} does not apply to this kernel's {FOLDER}"
        raise LabError(what, where="building an image") from None
