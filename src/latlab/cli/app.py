"""The command line: which verbs there are, in the order in which the help lists them.

A verb's module imports what the verb needs only when it runs: `latlab --help` answers at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

import typer

import latlab
from latlab.cli import compare, explain, images, imports, machine, run, scenario, synthetic
from latlab.cli.output import write

app = typer.Typer(
    name="latlab",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="How late time-sensitive packets arrive when a virtual machine is in the path, and why.\n\n"
    "Exit codes: 0 fine; 1 an accept limit was exceeded; 2 scenario or usage error; 3 the lab failed; "
    "4 the measurement cannot be trusted.",
)

image = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Build, list and remove images for guests and boards."
)

VERBS: Final[dict[str, Callable[..., None]]] = {
    "doctor": machine.doctor,
    "validate": scenario.validate,
    "plan": scenario.plan,
    "gates": scenario.gates,
    "run": run.run,
    "report": run.report,
    "show": run.show,
    "compare": compare.compare,
    "explain": explain.explain,
    "list": run.list_,
    "import": imports.import_,
    "synthetic": synthetic.synthetic,
    "clean": machine.clean,
}
IMAGE_VERBS: Final[dict[str, Callable[..., None]]] = {
    "build": images.image_build,
    "list": images.image_list,
    "clean": images.image_clean,
}


def _version(wanted: bool) -> None:
    if wanted:
        write(f"latlab {latlab.__version__}\n")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options before the verb."""


for _name, _verb in VERBS.items():
    app.command(name=_name)(_verb)
for _name, _verb in IMAGE_VERBS.items():
    image.command(name=_name)(_verb)
app.add_typer(image, name="image")
