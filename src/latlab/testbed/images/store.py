"""Where images are kept: one folder a name, in it image.json and, by digest, the folder with the image's files.

image.json is replaced at one blow after those files are there, so an image is there whole or not at all.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from latlab.model.errors import LabError, UsageError, file_remedy
from latlab.testbed.images.image import DESCRIPTION, Image, folder_name, read_description

NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
LOCK = ".lock"


def image_directory() -> Path:
    """Where all that can be made again is kept: `$LATLAB_CACHE`, else latlab in `$XDG_CACHE_HOME` or ~/.cache."""
    ours = os.environ.get("LATLAB_CACHE")
    return Path(ours) if ours else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "latlab"


def packages_directory() -> Path:
    """Where fetched packages are kept."""
    return image_directory() / "packages"


def home(name: str) -> Path:
    """The folder of the image of that name. UsageError: no image can have that name."""
    if not NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be an image's name", remedy="small letters and digits, then also `.`, `_` and `-`"
        )
    return image_directory() / "images" / name


def find_image(name: str) -> Image | None:
    """The image of that name; None if it was not built. UsageError: no image can have that name."""
    return read_description(home(name) / DESCRIPTION)


def list_images() -> list[Image]:
    """All images that were built, by name."""
    found = (read_description(path) for path in sorted(image_directory().glob(f"images/*/{DESCRIPTION}")))
    return [image for image in found if image]


def clean_images(names: Iterable[str] = ()) -> list[str]:
    """What was removed, in words: images with their snapshots; without names all of them, and the fetched packages.

    UsageError: there is no image of a name; nothing was removed.
    """
    wanted = list(names)
    for name in wanted:
        if not home(name).exists():
            raise UsageError(f"there is no image {name}", remedy="`latlab image list`")
    folders = [home(name) for name in wanted] or sorted((image_directory() / "images").glob("*/"))
    removed = []
    for folder in folders:
        with locked(folder):
            snapshots = len(list(folder.glob("*/snapshots/*")))
            (folder / DESCRIPTION).unlink(missing_ok=True)
            besides = f" with {snapshots} snapshot{'s' if snapshots > 1 else ''}" if snapshots else ""
            removed.append(f"image {folder.name}{besides}, {_megabytes(folder)}")
            shutil.rmtree(folder)
    if not wanted and packages_directory().exists():
        removed.append(f"fetched packages, {_megabytes(packages_directory())}")
        shutil.rmtree(packages_directory())
    return removed


@contextlib.contextmanager
def locked(folder: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Lock the folder, made if needed, while the context lasts; `waiting` is called if that takes a while.

    LabError: it cannot be written.
    """
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise LabError(
                f"cannot keep images: {error.strerror}",
                where=str(error.filename or folder),
                remedy=f"{file_remedy(error)}; or set LATLAB_CACHE to another folder".removeprefix("; or "),
            ) from None
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting()
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if not _is_at(descriptor, folder / LOCK):
                continue  # the process that had it has removed the folder
            yield
            return
        finally:
            os.close(descriptor)


def remove_superseded(folder: Path) -> None:
    """Remove from an image's folder all but the image: older ones, and what a build cut short left."""
    image = read_description(folder / DESCRIPTION)
    kept = {DESCRIPTION, LOCK, folder_name(image.digest) if image else ""}
    for path in folder.iterdir():
        if path.name not in kept:
            shutil.rmtree(path)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    ours = os.fstat(descriptor)
    return (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)


def _megabytes(folder: Path) -> str:
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return f"{size / 1e6:.0f} MB"
