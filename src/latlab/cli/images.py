"""Verbs about images for guests and boards."""

# Without annotations as text: the command line library would evaluate each of them at every start.
from typing import Annotated, Final

import typer

from latlab.cli.completion import complete_image
from latlab.cli.options import Json
from latlab.cli.output import open_console, print_json

ImageName = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME",
        help="The image's name; debian-cloud if not given, with --board debian-rt-board.",
        autocompletion=complete_image,
    ),
]
CONTENT: Final = "Content"
BUILD: Final = "Build"


def image_build(
    name: ImageName = None,
    flavour: Annotated[
        str | None,
        typer.Option(
            "--flavour",
            metavar="FLAVOUR",
            rich_help_panel=CONTENT,
            help="Debian kernel for an image with another name: cloud, standard or rt.",
        ),
    ] = None,
    package: Annotated[
        list[str] | None,
        typer.Option(
            "--package", metavar="NAME", rich_help_panel=CONTENT, help="Add this Debian package (repeatable)."
        ),
    ] = None,
    board: Annotated[
        bool,
        typer.Option(
            "--board",
            rich_help_panel=CONTENT,
            help="Build for an emulated board, which contains a complete test bed with its guests.",
        ),
    ] = False,
    arch: Annotated[
        str | None,
        typer.Option(
            "--arch",
            metavar="ARCH",
            rich_help_panel=CONTENT,
            help="Build for machines of this architecture, amd64 or arm64; this machine's if not given.",
        ),
    ] = None,
    emulator_from: Annotated[
        str | None,
        typer.Option(
            "--emulator-from",
            metavar="RELEASE",
            rich_help_panel=CONTENT,
            help="Run the board with QEMU from this Debian release, such as trixie.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", rich_help_panel=BUILD, help="Build it even if nothing has changed.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", rich_help_panel=BUILD, help="Print nothing if it is up to date.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Build an image of Debian packages, for a guest or a board.

    latlab knows how to build debian-cloud, debian-standard, debian-rt, debian-rt-dds, debian-rt-board and
    debian-standard-board. An image of another name has the kernel that --flavour names. Nothing is installed on this
    machine.

    Examples:
        # The guest of the demo
        latlab image build
        # A guest with PREEMPT_RT and stress-ng
        latlab image build debian-rt --package stress-ng
        # An emulated board
        latlab image build --board
        # An emulated ARM board
        latlab image build --board --arch arm64
        # A board whose cards have virtual functions
        latlab image build vf-board --board --emulator-from trixie
    """
    from latlab.listing import print_images
    from latlab.report.columns import print_sentence
    from latlab.testbed.images import BOARD_KIND, build_image

    console = open_console(stderr=True)
    image = build_image(
        name,
        flavour,
        package or (),
        architecture=arch,
        kind=BOARD_KIND if board else None,
        emulator_from=emulator_from,
        force=force,
        say=lambda line: print_sentence(line, console),
    )
    if as_json:
        print_json(image.as_dict())
    elif not quiet:
        print_images([image], open_console())


def image_list(as_json: Json = False) -> None:
    """List the images that were built.

    Examples:
        # Each image with its kernel and size, and whether it is up to date
        latlab image list
    """
    from latlab.listing import print_images
    from latlab.testbed.guests.start import is_current
    from latlab.testbed.images import list_images

    found = list_images()
    if as_json:
        print_json([image.as_dict() | {"up_to_date": is_current(image)} for image in found])
    else:
        print_images(found, open_console())


def image_clean(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="The image to remove; all images, and the fetched packages, if not given.",
            autocompletion=complete_image,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Remove images and their snapshots.

    What a run or a build uses is left.

    Examples:
        # One image
        latlab image clean debian-rt
        # All images, and the packages that were fetched for them
        latlab image clean
    """
    from latlab.report.columns import print_sentence
    from latlab.testbed.images import clean_images

    done = clean_images([name] if name else [])
    if as_json:
        print_json({"removed": done.removed, "in_use": done.in_use})
    else:
        lines = [*(f"removed: {line}" for line in done.removed), *(f"left: {line}" for line in done.in_use)]
        for line in lines or ["nothing to remove"]:
            print_sentence(line, open_console())
