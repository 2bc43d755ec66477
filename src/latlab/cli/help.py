"""What `--help` says of a verb, as parts: the help prints them, `tools/man.py` makes manual pages of them.

A verb is declared once: its docstring (a first line, paragraphs, and an `Examples:` block), its arguments and its
options, each with a metavar, a sentence, and the group it is listed in (`rich_help_panel`).
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from enum import Enum
from inspect import cleandoc
from itertools import takewhile
from typing import Any, Final, NamedTuple

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

ARGUMENTS: Final = "Arguments"
OPTIONS: Final = "Options"
"""The group of what is declared without one. It comes last."""
COMMANDS: Final = "Commands"
TERM_MAX: Final = 28
"""Columns of a term next to its text; a longer term is on a separate line."""
_EXAMPLES: Final = "Examples:\n"


class HelpEntry(NamedTuple):
    """An argument, an option or a verb, as `--runs FOLDER`, and what it is, in a sentence."""

    term: str
    text: str


class Example(NamedTuple):
    """Command lines, and what they are for."""

    what_for: str
    commands: tuple[str, ...]


class HelpPage(NamedTuple):
    """All that the help of one verb says. usage: what follows the name. groups: (heading, entries), in order."""

    name: str
    usage: str
    summary: str
    paragraphs: tuple[str, ...]
    groups: tuple[tuple[str, tuple[HelpEntry, ...]], ...]
    examples: tuple[Example, ...]


class Verb(TyperCommand):
    """A verb whose help is its page."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return what the usage line has after the name."""
        return _usage(self, ctx)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the page."""
        formatter.write(as_text(page(self, ctx), formatter.width))


class Verbs(TyperGroup):
    """A verb that has verbs. told_last: more for its help to end with, as (heading, entries)."""

    told_last: Sequence[tuple[str, Sequence[HelpEntry]]] = ()

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return what the usage line has after the name."""
        return _usage(self, ctx)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the page."""
        formatter.write(as_text(page(self, ctx), formatter.width, self.told_last))


def page(command: Any, ctx: Any) -> HelpPage:
    """Return the page of a verb in its context, or of a verb that has verbs."""
    told, _, examples = cleandoc(command.help or "").partition(_EXAMPLES)
    summary, *paragraphs = [" ".join(one.split()) for one in told.strip().split("\n\n")]
    groups: dict[str, list[HelpEntry]] = {}
    for heading, entry in _entries(command, ctx):
        groups.setdefault(heading, []).append(entry)
    groups = {heading: groups[heading] for heading in sorted(groups, key=lambda one: one == OPTIONS)}
    return HelpPage(
        ctx.command_path,
        " ".join(_usage(command, ctx)),
        summary,
        tuple(paragraphs),
        tuple((heading, tuple(entries)) for heading, entries in groups.items()),
        tuple(_examples(examples)),
    )


def as_text(shown: HelpPage, width: int, last: Sequence[tuple[str, Sequence[HelpEntry]]] = ()) -> str:
    """Return the page as a terminal of so many columns has it."""
    column = _column([entry for _, entries in (*shown.groups, *last) for entry in entries])
    lines = [*_filled(shown.usage, width, f"Usage: {shown.name} "), ""]
    for text in (shown.summary, *shown.paragraphs):
        lines += [*_filled(text, width, "  ", "  "), ""]
    for heading, entries in shown.groups:
        lines += [*_group_lines(heading, entries, column, width), ""]
    if shown.examples:
        lines += ["Examples:"]
        for example in shown.examples:
            lines += [*_filled(example.what_for, width, "  # ", "  # "), *(f"  {one}" for one in example.commands)]
        lines += [""]
    for heading, told in last:
        lines += [*_group_lines(heading, told, column, width), ""]
    return "\n".join(lines[:-1]) + "\n"


def group_as_text(heading: str, entries: Sequence[HelpEntry], width: int) -> str:
    """Return one group of entries as a terminal of so many columns has it."""
    return "\n".join(_group_lines(heading, entries, _column(entries), width)) + "\n"


def _column(entries: Sequence[HelpEntry]) -> int:
    """Return how far the texts are from the beginning of the terms."""
    lengths = [len(entry.term) for entry in entries]
    return max((length for length in lengths if length <= TERM_MAX), default=0) + 2


def _group_lines(heading: str, entries: Sequence[HelpEntry], column: int, width: int) -> Iterator[str]:
    yield f"{heading}:"
    for entry in entries:
        yield from _entry_lines(entry, column, width)


def _entry_lines(entry: HelpEntry, column: int, width: int) -> Iterator[str]:
    indent = " " * (2 + column)
    lines = textwrap.wrap(entry.text, max(width - len(indent), 20), break_on_hyphens=False) or [""]
    if len(entry.term) + 2 <= column:
        yield f"  {entry.term:<{column}}{lines[0]}".rstrip()
        lines = lines[1:]
    else:
        yield f"  {entry.term}"
    yield from (indent + line for line in lines)


def _filled(text: str, width: int, first: str, others: str | None = None) -> list[str]:
    others = " " * len(first) if others is None else others
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=others, break_on_hyphens=False, break_long_words=False
    )


def _usage(command: Any, ctx: Any) -> list[str]:
    """As `[OPTIONS] SCENARIO`; what need not be given is in brackets."""
    arguments = [one for one in command.get_params(ctx) if isinstance(one, TyperArgument) and not one.hidden]
    named = [_argument(one) if one.required else f"[{_argument(one)}]" for one in arguments]
    verbs = ["COMMAND ..."] if isinstance(command, TyperGroup) else []
    return ["[OPTIONS]", *named, *verbs]


def _entries(command: Any, ctx: Any) -> Iterator[tuple[str, HelpEntry]]:
    """(heading, entry) of all that is listed, arguments first, then verbs, then options."""
    params = [one for one in command.get_params(ctx) if not getattr(one, "hidden", False)]
    for param in params:
        if isinstance(param, TyperArgument):
            yield param.rich_help_panel or ARGUMENTS, HelpEntry(_argument(param), param.help or "")
    if isinstance(command, TyperGroup):
        for name, verb in command.commands.items():
            if not verb.hidden:
                panel = getattr(verb, "rich_help_panel", None) or COMMANDS
                yield panel, HelpEntry(name, cleandoc(verb.help or "").partition("\n\n")[0].replace("\n", " "))
    for param in params:
        if isinstance(param, TyperOption):
            value = "" if param.is_flag else f" {param.metavar or param.name.upper()}"
            yield (
                param.rich_help_panel or OPTIONS,
                HelpEntry(", ".join(sorted(param.opts, key=len)) + value, _with_default(param)),
            )


def _argument(param: TyperArgument) -> str:
    return (param.metavar or param.name.upper()) + ("..." if param.nargs != 1 else "")


def _with_default(param: TyperOption) -> str:
    default = param.default.value if isinstance(param.default, Enum) else param.default
    plain = param.show_default and not (param.is_flag or default in (None, [], ()) or callable(default))
    return f"{param.help or ''} [default: {default}]" if plain else param.help or ""


def _examples(block: str) -> Iterator[Example]:
    """The commands of the block, with the comment above them."""
    lines = list(filter(None, map(str.strip, block.splitlines())))
    while lines:
        comments = list(takewhile(lambda line: line.startswith("#"), lines))
        commands = list(takewhile(lambda line: not line.startswith("#"), lines[len(comments) :]))
        lines = lines[len(comments) + len(commands) :]
        yield Example(" ".join(one.lstrip("# ") for one in comments), tuple(commands))
