"""Which images there are, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from latlab.testbed.guests.origin import is_current
from latlab.testbed.images import Image, image_directory

REBUILD = "no: latlab image build {}"


def print_images(images: Sequence[Image], console: Console) -> None:
    """Print the images, by name, each with whether it has this latlab's agent in it."""
    if not images:
        console.print(f"no images in {image_directory()} yet: latlab image build", highlight=False, markup=False)
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("image", "kind", "kernel", "other packages", "size", "built (UTC)", "up to date"):
        table.add_column(heading, overflow="fold")
    for image in images:
        built = image.built.replace("T", " ").removesuffix("+00:00")
        current = "yes" if is_current(image) else REBUILD.format(image.name)
        size = f"{image.size / 1e6:.0f} MB"
        table.add_row(
            *map(Text, (image.name, image.kind, image.kernel_version, " ".join(image.extra), size, built, current))
        )
    console.print(table)
