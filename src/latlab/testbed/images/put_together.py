"""The command that puts a board's initial file system together with the images of guests.

python -m latlab.testbed.images.put_together BOARD GUEST…
"""

from __future__ import annotations

import sys

from latlab.model.errors import LabError
from latlab.testbed.images.store import find_image
from latlab.testbed.images.with_guests import put_together


def main(board: str, *guests: str) -> None:
    """Put it together from the images of these names. LabError: one is not there."""
    images = [find_image(name) for name in (board, *guests)]
    whole = [image for image in images if image]
    if len(whole) < len(images):
        missing = [name for name, image in zip((board, *guests), images, strict=True) if image is None]
        raise LabError(f"there is no image {', '.join(missing)}", where="a board's initial file system")
    put_together(whole[0], whole[1:])


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (LabError, OSError) as error:
        sys.exit(str(error))
