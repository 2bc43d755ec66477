"""The guest image that a board carries for guests nested in it."""

from __future__ import annotations

from latlab.testbed.images.archive import archive, file
from latlab.testbed.images.image import DESCRIPTION, INITRAMFS, KERNEL, Image
from latlab.testbed.images.store import home

FOLDER = "usr/share/latlab/images"


def image_archive(image: Image) -> bytes:
    """An archive with the image's kernel, initial file system and description, in a folder by its name."""
    files = {KERNEL: image.kernel, INITRAMFS: image.initramfs, DESCRIPTION: home(image.name) / DESCRIPTION}
    return archive({f"{FOLDER}/{image.name}/{name}": file(path.read_bytes()) for name, path in files.items()})
