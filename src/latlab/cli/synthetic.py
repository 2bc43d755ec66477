"""The verb `latlab synthetic`: from a description to a run folder with known anomalies, not measured."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from latlab.cli.options import FILES, RUNS, Json
from latlab.cli.output import open_console, print_json
from latlab.model.labels import SYNTHETIC

if TYPE_CHECKING:
    from latlab.recordings.run_folder import RunFolder
    from latlab.synthetic import Description


def synthetic(
    description: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Description of the run, in YAML; docs/reference/synthetic.md has its keys."
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", metavar="FOLDER", rich_help_panel=FILES, help="The folder that the run is written to."
        ),
    ] = RUNS,
    as_json: Json = False,
) -> None:
    """Make a run with known anomalies, to test the analysis.

    The run has the noise, stalls and clock errors that FILE describes; nothing is measured. `latlab report` reads it
    like any other run. Its label is synthetic, and it is never trusted.

    Examples:
        # Make a run, and see what the analysis finds in it
        latlab synthetic try.yaml
        latlab report
    """
    from latlab.report.columns import print_sentence
    from latlab.synthetic_file import read_description

    described = read_description(description)
    folder = make_run(described, output, description.stem)
    if as_json:
        print_json(_document(described, folder))
    else:
        console = open_console()
        for line in _lines(described, folder, output):
            print_sentence(line, console)


def make_run(described: Description, root: Path, name: str) -> RunFolder:
    """The run folder, new in `root`, called as any run is, its name beginning with synthetic. UsageError: no folder can
    be made there, or nothing of such a description.
    """
    import re

    from latlab.recordings.run_folder import RunFolder
    from latlab.synthetic import generate
    from latlab.synthetic.run import fill_run

    made = generate(described)
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:20]
    folder = RunFolder.create(root, "-".join(filter(None, (SYNTHETIC, plain.removeprefix(SYNTHETIC).strip("-")))))
    about = folder.run()
    fill_run(made, folder, about.name, about.started)
    return folder


def _lines(described: Description, folder: RunFolder, root: Path) -> list[str]:
    made = ", ".join(f"{count} × {kind}" for kind, count in _counted(described).items()) or "noise alone"
    where = "" if root == RUNS else f" --runs {root}"
    return [
        f"Generated, not measured: {described.packets} packets, {made}",
        f"Run: {folder.path}",
        f"The truth of each packet: {folder.path}/cells/all/r1/truth.json, truth.parquet",
        f"What the analysis finds: latlab report {folder.id}{where}",
    ]


def _document(described: Description, folder: RunFolder) -> dict[str, object]:
    return {
        "run": folder.id,
        "path": str(folder.path.resolve()),
        "label": SYNTHETIC,
        "packets": described.packets,
        "ingredients": _counted(described),
    }


def _counted(described: Description) -> dict[str, int]:
    """{kind: how many of it}, as files call them."""
    from latlab.synthetic_file import KINDS

    names = {cls: name for name, cls in KINDS.items()}
    return dict(Counter(names[type(one)] for one in described.ingredients))
