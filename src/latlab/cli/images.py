"""Verbs about images for guests and boards."""

from __future__ import annotations

from typing import Annotated

import typer

from latlab.cli.options import Json
from latlab.cli.output import open_console, print_json

ImageName = Annotated[
    str | None,
    typer.Argument(metavar="NAME", help="The image's name; debian-cloud if not given, with --board debian-rt-board."),
]


def image_build(
    name: ImageName = None,
    flavour: Annotated[
        str | None,
        typer.Option("--flavour", metavar="NAME", help="Debian's kernel, for a name of your own: cloud, standard, rt."),
    ] = None,
    package: Annotated[
        list[str] | None,
        typer.Option("--package", metavar="NAME", help="Take in this Debian package (may be given several times)."),
    ] = None,
    board: Annotated[
        bool, typer.Option("--board", help="For a board: a machine in which a whole test bed is made, guests and all.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Build it even if nothing has changed.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing unless it is built.")] = False,
    as_json: Json = False,
) -> None:
    """Build an image of Debian packages, for a guest or a board.

    debian-cloud, debian-standard, debian-rt, debian-rt-dds, debian-rt-board, or one of a name of your own. Nothing is
    installed on this machine.
    """
    from latlab.image_listing import print_images
    from latlab.lab.agent_binary import find_agent
    from latlab.lab.images import BOARD_KIND, build_image

    agent, console = find_agent(), open_console(stderr=True)
    image = build_image(
        name,
        flavour,
        package or (),
        agent,
        kind=BOARD_KIND if board else None,
        force=force,
        say=lambda line: console.print(line, highlight=False, markup=False, soft_wrap=True),
    )
    if as_json:
        print_json(image.as_dict())
    elif not quiet:
        print_images([image], agent, open_console())


def image_list(as_json: Json = False) -> None:
    """List the images that were built."""
    from latlab.image_listing import print_images
    from latlab.lab.agent_binary import find_agent
    from latlab.lab.images import list_images

    found, agent = list_images(), find_agent()
    if as_json:
        print_json([image.as_dict() | {"up_to_date": image.is_up_to_date(agent)} for image in found])
    else:
        print_images(found, agent, open_console())


def image_clean(name: Annotated[str | None, typer.Argument(metavar="NAME")] = None, as_json: Json = False) -> None:
    """Remove images, with their snapshots.

    That one, or all, and with all the packages that were fetched.
    """
    from latlab.lab.images import clean_images

    removed = clean_images([name] if name else [])
    if as_json:
        print_json({"removed": removed})
    else:
        for line in removed or ["nothing to remove"]:
            open_console().print(line if not removed else f"removed: {line}", highlight=False, markup=False)
