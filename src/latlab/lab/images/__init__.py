"""Guest images: a kernel and an initial file system of Debian's packages, with the agent as first process."""

from latlab.lab.images.build import build_image
from latlab.lab.images.image import Image
from latlab.lab.images.recipe import FLAVOURS, READY_MADE
from latlab.lab.images.snapshot import KEEP, keep_newest, part_path, snapshot_path
from latlab.lab.images.store import clean_images, find_image, image_directory, list_images

__all__ = [
    "FLAVOURS",
    "KEEP",
    "READY_MADE",
    "Image",
    "build_image",
    "clean_images",
    "find_image",
    "image_directory",
    "keep_newest",
    "list_images",
    "part_path",
    "snapshot_path",
]
