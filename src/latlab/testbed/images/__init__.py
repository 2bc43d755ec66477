"""Images of guests and boards: a kernel and an initial file system of Debian's packages, the agent as first process."""

from latlab.testbed.images.build import build_image
from latlab.testbed.images.kinds import BOARD_KIND, DEFAULTS, GUEST_KIND, READY_MADE
from latlab.testbed.images.recipe import FLAVOURS
from latlab.testbed.images.store import (
    KEEP,
    Image,
    Removal,
    clean_images,
    file_digest,
    find_image,
    image_directory,
    in_use,
    is_whole,
    keep_newest,
    list_images,
    mark_used,
    part_path,
    snapshot_path,
)

__all__ = [
    "BOARD_KIND",
    "DEFAULTS",
    "FLAVOURS",
    "GUEST_KIND",
    "KEEP",
    "READY_MADE",
    "Image",
    "Removal",
    "build_image",
    "clean_images",
    "file_digest",
    "find_image",
    "image_directory",
    "in_use",
    "is_whole",
    "keep_newest",
    "list_images",
    "mark_used",
    "part_path",
    "snapshot_path",
]
