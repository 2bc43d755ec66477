"""The command that puts a board's initial file system together with the images of guests.

python -m latlab.testbed.images.put_together BOARD[@DIGEST] GUEST[@DIGEST]…
"""

from __future__ import annotations

import sys

from latlab.model.errors import LabError
from latlab.testbed.images.store import Image, find_image, folder_name
from latlab.testbed.images.with_guests import put_together

WHERE = "a board's initial file system"


def words_for(board: Image, *guests: Image) -> tuple[str, ...]:
    """The command's arguments: the images' names, and the beginnings of their digests, if they are built."""
    return tuple(f"{one.name}@{folder_name(one.digest)}" if one.digest else one.name for one in (board, *guests))


def main(board: str, *guests: str) -> None:
    """Put it together from the images of these names. LabError: one is not there, or has another digest."""
    asked = [word.partition("@")[::2] for word in (board, *guests)]
    images = {name: find_image(name) for name, _ in asked}
    if missing := [name for name, image in images.items() if image is None]:
        raise LabError(f"there is no image {', '.join(missing)}", where=WHERE)
    whole = {name: image for name, image in images.items() if image}
    if others := [name for name, digest in asked if digest not in ("", folder_name(whole[name].digest))]:
        what = f"built again since the run began: {', '.join(others)}"
        raise LabError(what, where=WHERE, remedy="start the run again: it takes the new ones")
    put_together(whole[asked[0][0]], [whole[name] for name, _ in asked[1:]])


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (LabError, OSError) as error:
        sys.exit(str(error))
