"""Writes manual pages of the command line, one for each verb, from what `--help` is made of.

    tools/man.py FOLDER

The folder is made. `man -l FOLDER/latlab.1` shows a page; in /usr/local/share/man/man1 `man latlab` finds it.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import typer
from typer.main import get_command

import latlab
from latlab.cli import app
from latlab.cli.app import ENVIRONMENT, EXIT_CODES
from latlab.cli.help import ARGUMENTS, OPTIONS, HelpEntry, HelpPage, Verbs, page


def main() -> int:
    """Write the pages into the folder, and print where they are."""
    if len(sys.argv) != 2:
        print("usage: tools/man.py FOLDER", file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    shown = list(pages())
    names = [file_name(one) for one in shown]
    for one, name in zip(shown, names, strict=True):
        (folder / f"{name}.1").write_text(manual(one, [other for other in names if other != name]), encoding="utf-8")
    print(f"{len(names)} manual pages: {folder}/")
    return 0


def pages() -> Iterator[HelpPage]:
    """The page of the command line, and those of all its verbs."""
    command = get_command(app)
    yield from _below(command, typer.Context(command, info_name="latlab", **command.context_settings))


def _below(command: object, context: typer.Context) -> Iterator[HelpPage]:
    yield page(command, context)
    if isinstance(command, Verbs):
        for name, verb in command.commands.items():
            yield from _below(verb, typer.Context(verb, info_name=name, parent=context))


def file_name(shown: HelpPage) -> str:
    """As latlab-image-build."""
    return shown.name.replace(" ", "-")


def manual(shown: HelpPage, others: Sequence[str]) -> str:
    """The page in the man macros (man(7)). others: the names of other pages, to see also."""
    name = file_name(shown)
    lines = [
        f'.TH {name.upper()} 1 {date()} "latlab {latlab.__version__}" "latlab"',
        ".SH NAME",
        rf"{name} \- {escaped(shown.summary[0].lower() + shown.summary[1:].rstrip('.'))}",
        ".SH SYNOPSIS",
        f".B {escaped(shown.name)}",
        escaped(shown.usage),
        ".SH DESCRIPTION",
        *_filled(shown.summary),
    ]
    for paragraph in shown.paragraphs:
        lines += [".PP", *_filled(paragraph)]
    options = {heading: entries for heading, entries in shown.groups if entries[0].term.startswith("-")}
    verbs = {heading: entries for heading, entries in shown.groups if heading not in (ARGUMENTS, *options)}
    arguments = {heading: entries for heading, entries in shown.groups if heading == ARGUMENTS}
    for title, groups in (("ARGUMENTS", arguments), ("COMMANDS", verbs), ("OPTIONS", options)):
        lines += [f".SH {title}"] if groups else []
        for heading, entries in groups.items():
            lines += [] if list(groups) in ([OPTIONS], [ARGUMENTS]) else [f".SS {escaped(heading)}"]
            lines += _listed(entries)
    lines += [".SH EXAMPLES"]
    for number, example in enumerate(shown.examples):
        lines += [".PP"] if number else []
        lines += [*_filled(example.what_for if example.what_for.endswith("?") else f"{example.what_for}:"), ".PP"]
        lines += [".RS 4", ".nf", *map(escaped, example.commands), ".fi", ".RE"]
    lines += [".SH ENVIRONMENT", *_listed(ENVIRONMENT)]
    lines += [".SH EXIT STATUS", *_listed(EXIT_CODES)]
    near = [other for other in others if name.startswith(f"{other}-") or other.startswith(f"{name}-")]
    # The comma is a part of the word that follows the bold one.
    lines += [".SH SEE ALSO", *(rf".BR {escaped(other)} (1)," for other in sorted(near)[:-1])]
    lines += [rf".BR {escaped(other)} (1)" for other in sorted(near)[-1:]]
    return "\n".join(lines) + "\n"


def agent_manual(helped: str) -> str:
    """The page of the agent. helped: what `latlab-agent --help` prints."""
    about, _, rest = helped.partition("\n\nUsage: ")
    commands, _, options = rest.partition("\nCommands:\n")[2].partition("\n\nOptions:\n")
    listed = [[HelpEntry(*line.split(maxsplit=1)) for line in commands.splitlines()]]
    listed.append([HelpEntry(*re.split(r"\s{2,}", line.strip(), maxsplit=1)) for line in options.splitlines()])
    summary = "the program that latlab runs on whatever is measured"
    lines = [
        f'.TH LATLAB-AGENT 1 {date()} "latlab {latlab.__version__}" "latlab"',
        ".SH NAME",
        rf"latlab\-agent \- {summary}",
        *(".SH SYNOPSIS", r".B latlab\-agent", "COMMAND"),
        *(".SH DESCRIPTION", *_filled(about)),
        *(".SH COMMANDS", *_listed(listed[0])),
        *(".SH OPTIONS", *_listed(listed[1])),
    ]
    return "\n".join(lines) + "\n"


def _listed(entries: Sequence[HelpEntry]) -> Iterator[str]:
    for entry in entries:
        yield from (".TP", rf"\fB{escaped(entry.term)}\fR", *_filled(entry.text))


def _filled(text: str) -> list[str]:
    """The text in lines of its source."""
    return [escaped(line) for line in textwrap.wrap(text, 72, break_on_hyphens=False)]


def date() -> str:
    """The day of the build, or of SOURCE_DATE_EPOCH (reproducible-builds.org)."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    return (datetime.fromtimestamp(int(seconds), UTC) if seconds else datetime.now(UTC)).strftime("%Y-%m-%d")


def escaped(text: str) -> str:
    """The text as roff prints it: hyphens are those of options, and no line begins a request (groff_char(7))."""
    text = text.replace("\\", r"\e").replace("-", r"\-").replace("`", "").replace("'", r"\(aq")
    text = text.replace("^", r"\(ha").replace("~", r"\(ti")
    return re.sub(r"^(?=[.'])", r"\\&", text)


if __name__ == "__main__":
    sys.exit(main())
