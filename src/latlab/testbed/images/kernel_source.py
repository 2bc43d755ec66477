"""A folder of the kernel's source, out of Debian's package of it: nothing else of that is ever on the disk unpacked."""

from __future__ import annotations

import lzma
import subprocess
import tarfile
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import IO

from latlab.model.errors import LabError

ARCHIVE = "./usr/src/linux-source-*.tar.xz"
PIECE = 1 << 20


def source_files(package: Path, folder: str) -> dict[str, bytes]:
    """The files right in a folder of the source, such as drivers/net, by name. LabError: the package has none there.

    package: the file of linux-source-…; it is read as far as the folder's end, as it holds a gigabyte and a half.
    """
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
            archive = outer.extractfile(member) if fnmatchcase(member.name, ARCHIVE) else None
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
