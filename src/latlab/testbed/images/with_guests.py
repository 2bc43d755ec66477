"""A board's initial file system with the images of the guests that are to start on it.

A board's image has that of the guests one need not name; with others it is put together once, and kept with the image.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from latlab.testbed.images.archive import archive, file
from latlab.testbed.images.kinds import DEFAULTS, GUEST_KIND, named_for
from latlab.testbed.images.store import (
    DESCRIPTION,
    INITRAMFS,
    KERNEL,
    NESTED_INITRAMFS,
    Image,
    digest_of,
    folder_name,
    home,
    keep_newest,
    part_path,
    room,
)

PUT_TOGETHER_MODULE = "latlab.testbed.images.put_together"
KEEP = 3
"""The newest that are kept of a board's image; each is larger than that."""


def nested_path(board: Image, guests: Sequence[Image]) -> Path:
    """Where the initial file system is that has the images of those guests, whether it is there or not."""
    others = {image.name: image.digest for image in _others(board, guests)}
    if not others:
        return board.folder / NESTED_INITRAMFS
    return board.folder / "nested" / folder_name(digest_of(others))


def put_together(board: Image, guests: Sequence[Image]) -> None:
    """Write the initial file system at its nested_path, whole or not at all. LabError: no room."""
    path, own, others = nested_path(board, guests), board.folder / NESTED_INITRAMFS, _others(board, guests)
    path.parent.mkdir(exist_ok=True)
    part = part_path(path)
    try:
        with room(path.parent, own.stat().st_size + sum(image.size for image in others)):
            with part.open("wb") as file:
                with own.open("rb") as source:
                    shutil.copyfileobj(source, file)
                file.writelines(map(image_archive, others))
            os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    keep_newest(path.parent, KEEP)


def _others(board: Image, guests: Sequence[Image]) -> list[Image]:
    """Those that the board's image does not have. Two images of one content have one digest, and two names."""
    own = (named_for(DEFAULTS[GUEST_KIND], board.architecture), board.nested_image)
    return [image for image in guests if (image.name, image.digest) != own]


# The guest image that a board carries for guests nested in it.


IMAGES_FOLDER = "usr/share/latlab/images"
NO_TIME = "1970-01-01T00:00:00+00:00"
"""A board that is built again from the same packages is the same to the byte, and so are its figures."""


def image_archive(image: Image) -> bytes:
    """An archive with the image's kernel, initial file system and description, in a folder by its name."""
    described = json.loads((home(image.name) / DESCRIPTION).read_text()) | {"built": NO_TIME}
    files = {
        KERNEL: image.kernel.read_bytes(),
        INITRAMFS: image.initramfs.read_bytes(),
        DESCRIPTION: json.dumps(described, indent=2).encode(),
    }
    return archive({f"{IMAGES_FOLDER}/{image.name}/{name}": file(content) for name, content in files.items()})
