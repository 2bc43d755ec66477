"""The guest image that a board carries for guests nested in it."""

from __future__ import annotations

import json

from latlab.testbed.images.archive import archive, file
from latlab.testbed.images.image import DESCRIPTION, INITRAMFS, KERNEL, Image
from latlab.testbed.images.store import home

FOLDER = "usr/share/latlab/images"
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
    return archive({f"{FOLDER}/{image.name}/{name}": file(content) for name, content in files.items()})
