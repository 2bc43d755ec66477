"""What a shell completes, and the verb that prints the script for it.

A shell starts `latlab` for each word that it completes, so what suggests words imports little, and only then.
"""

# Without annotations as text: the command line library would evaluate each of them at every start.

from enum import StrEnum
from pathlib import Path
from textwrap import shorten
from typing import Annotated, Final

import typer

from latlab.cli.output import write

Suggested = list[tuple[str, str]]
"""Words, each with what it means, or with nothing."""


TEXT_MAX: Final = 60
"""So many characters of what a word means are shown next to it."""


class Shell(StrEnum):
    """The shells that there is a script for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


# The variables are those that typer's own scripts set. Those fail where latlab is not on the PATH, and zsh's at the
# first word after its start.
SCRIPTS: Final = {
    Shell.BASH: r"""_latlab_completion() {
    local IFS=$'\n'
    COMPREPLY=($(env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD="$COMP_CWORD" \
        _LATLAB_COMPLETE=complete_bash "$1" 2>/dev/null))
}
complete -o default -F _latlab_completion latlab
""",
    Shell.ZSH: r"""#compdef latlab
_latlab() {
    eval $(env _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" _LATLAB_COMPLETE=complete_zsh "${words[1]}" 2>/dev/null)
}
if [ "$funcstack[1]" = _latlab ]; then
    _latlab "$@"
else
    compdef _latlab latlab
fi
""",
    Shell.FISH: r"""function __latlab_completion
    set -l words (commandline -opc)
    env _LATLAB_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=$argv[1] \
        _TYPER_COMPLETE_ARGS=(commandline -cp | string collect) $words[1] 2>/dev/null
end
complete --command latlab --no-files --condition '__latlab_completion is-args' \
    --arguments '(__latlab_completion get-args)'
""",
}


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="The shell: bash, zsh or fish.")],
) -> None:
    """Print the script that lets a shell complete latlab.

    It completes verbs, options, ready-made scenarios, runs, metrics and ids.

    Examples:
        # bash: in this shell; then in every later one
        source <(latlab completion bash)
        latlab completion bash > ~/.local/share/bash-completion/completions/latlab
        # zsh: into a folder of $fpath
        latlab completion zsh > ~/.zfunc/_latlab
        # fish
        latlab completion fish > ~/.config/fish/completions/latlab.fish
    """
    write(SCRIPTS[shell])


def complete_scenario(incomplete: str) -> Suggested:
    """Suggest ready-made scenarios, and YAML files of this folder."""
    from latlab.cli.ready_made import ready_made

    files = [path.name for path in sorted(Path().iterdir()) if path.suffix in (".yaml", ".yml")]
    named = {one.name: one.description for one in ready_made()} | dict.fromkeys(files, "")
    return _begun(incomplete, named)


def complete_run(ctx: typer.Context, incomplete: str) -> Suggested:
    """Suggest runs, newest first, of the folder that --runs names."""
    runs = Path(str(ctx.params.get("runs") or "runs"))
    return _begun(incomplete, {path.parent.name: "" for path in sorted(runs.glob("*/run.json"), reverse=True)})


def complete_shown(ctx: typer.Context, incomplete: str) -> Suggested:
    """Suggest sections of a report, and runs."""
    from latlab.report.sections import SECTIONS

    return [*_begun(incomplete, dict.fromkeys((*SECTIONS, "all"), "")), *complete_run(ctx, incomplete)]


def complete_metric(incomplete: str) -> Suggested:
    """Suggest metrics."""
    from latlab.model.metrics import METRICS_BY_NAME

    return _begun(incomplete, {name: metric.title for name, metric in METRICS_BY_NAME.items()})


def complete_id(incomplete: str) -> Suggested:
    """Suggest ids that `latlab explain` knows."""
    from latlab.explain import topics

    return _begun(incomplete, {topic.id: topic.kind for topic in topics()})


def complete_format(incomplete: str) -> Suggested:
    """Suggest formats that `latlab import` reads."""
    from latlab.imports.table import FORMATS

    return _begun(incomplete, {one.name: one.what for one in FORMATS})


def complete_printed(incomplete: str) -> Suggested:
    """Suggest formats that `latlab report` prints."""
    from latlab.report.formats import FORMATS

    return _begun(incomplete, dict.fromkeys(("terminal", *FORMATS), ""))


def complete_image(incomplete: str) -> Suggested:
    """Suggest images: those that latlab knows how to build, and those that are there."""
    from latlab.testbed.images import READY_MADE, list_images

    return _begun(incomplete, dict.fromkeys((*READY_MADE, *(image.name for image in list_images())), ""))


def _begun(incomplete: str, named: dict[str, str]) -> Suggested:
    # The library folds a text at the terminal's width, and fish takes each line for a word.
    return [
        (name, shorten(text, TEXT_MAX, placeholder=" …")) for name, text in named.items() if name.startswith(incomplete)
    ]
