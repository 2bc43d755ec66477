"""The command line: which verbs there are, in the groups and the order in which the help lists them.

A verb's module imports what the verb needs only when it runs: `latlab --help` answers at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

import typer

import latlab
from latlab.cli import compare, completion, explain, images, imports, init, machine, run, scenario, synthetic, watch
from latlab.cli.help import HelpEntry, Verb, Verbs
from latlab.cli.output import write

EXIT_CODES: Final = (
    HelpEntry("0", "The measurement is fine."),
    HelpEntry("1", "A limit of `accept` or of a comparison was exceeded."),
    HelpEntry("2", "The scenario or the command line is wrong; nothing was changed."),
    HelpEntry("3", "The test bed, a tool or a file failed."),
    HelpEntry("4", "The measurement cannot be trusted."),
)
ENVIRONMENT: Final = (
    HelpEntry(
        "LATLAB_AGENT",
        "The path of the agent; if not set, next to the running Python, in the package or on the PATH.",
    ),
    HelpEntry("LATLAB_CACHE", "The folder of images; if not set, latlab in $XDG_CACHE_HOME or ~/.cache."),
    HelpEntry("LATLAB_STATE", "The folder of the journals; if not set, /var/lib/latlab/journal."),
    HelpEntry("COLUMNS", "How many columns tables have where output goes to no terminal; 100 if not set."),
    HelpEntry("NO_COLOR", "If it is set to any text, or TERM is dumb, no colours or other escape codes are printed."),
)

CONTEXT: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
"""Of the command line and all its verbs."""


class Latlab(Verbs):
    """The command line as a whole."""

    told_last = (("Environment", ENVIRONMENT), ("Exit codes", EXIT_CODES))

    def get_params(self, ctx: Any) -> list[Any]:
        """Return its options, without those that install a completion script: `latlab completion` prints it."""
        return [one for one in super().get_params(ctx) if one.name not in ("install_completion", "show_completion")]


app = typer.Typer(
    name="latlab",
    cls=Latlab,
    context_settings=CONTEXT,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="""Measure how late time-sensitive packets arrive when a virtual machine is in the path, and why.

    Examples:
        # What this machine can measure, and what is missing
        sudo latlab doctor
        # Measure every virtual bridge that it can make
        sudo latlab run demo
        # What a verb does
        latlab run --help
    """,
)

image = typer.Typer(
    cls=Verbs,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Build, list and remove images for guests and boards.

    Examples:
        # The guest of the demo
        latlab image build
    """,
)

GROUPS: Final[dict[str, dict[str, Callable[..., None]]]] = {
    "Prepare": {
        "doctor": machine.doctor,
        "init": init.init,
        "validate": scenario.validate,
        "plan": scenario.plan,
        "gates": scenario.gates,
    },
    "Measure": {"run": run.run, "watch": watch.watch, "clean": machine.clean},
    "Results": {
        "report": run.report,
        "show": run.show,
        "compare": compare.compare,
        "explain": explain.explain,
        "list": run.list_,
        "import": imports.import_,
        "synthetic": synthetic.synthetic,
    },
    "Shell": {"completion": completion.completion},
}
IMAGE: Final = "Prepare"
"""The group of `latlab image`, which comes last in it."""
VERBS: Final = {name: verb for group in GROUPS.values() for name, verb in group.items()}
IMAGE_VERBS: Final[dict[str, Callable[..., None]]] = {
    "build": images.image_build,
    "list": images.image_list,
    "clean": images.image_clean,
}


def _version(wanted: bool) -> None:
    if wanted:
        from latlab.testbed.agent_binary import agent_lines

        write("\n".join((f"latlab {latlab.__version__}", *agent_lines())) + "\n")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the versions of latlab and its agents, and exit."
        ),
    ] = False,
) -> None:
    """Options before the verb."""


for _name, _verb in IMAGE_VERBS.items():
    image.command(name=_name, cls=Verb)(_verb)
for _group, _verbs in GROUPS.items():
    for _name, _verb in _verbs.items():
        app.command(name=_name, cls=Verb, rich_help_panel=_group)(_verb)
app.add_typer(image, name="image", rich_help_panel=IMAGE)
