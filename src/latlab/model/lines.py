"""Sentences as lines of a terminal."""

from __future__ import annotations

import re
from textwrap import wrap
from typing import Final

_COMMAND: Final = re.compile(r"\S*`[^`]+`\S*")
_KEPT: Final = "\0"
"""Stands for a blank at which no line ends."""


def folded(line: str, width: int, *, indent: int = 0) -> list[str]:
    """The lines of a sentence, its continuation indented. A path or another word that is wider stays in one piece, and
    so does a command in backticks that a line has room for. Where it has line breaks, as an error with the last lines
    of a log has, each of its lines is folded by itself.
    """
    if "\n" in line:
        return [piece for one in line.splitlines() for piece in folded(one, width, indent=indent)]
    words = line.lstrip()
    before = " " * (len(line) - len(words) + indent)
    room = width - len(before) - 2

    def kept(found: re.Match[str]) -> str:
        return found[0].replace(" ", _KEPT) if len(found[0]) <= room else found[0]

    lines = wrap(
        _COMMAND.sub(kept, words),
        width,
        initial_indent=before,
        subsequent_indent=f"{before}  ",
        break_on_hyphens=False,
        break_long_words=False,
    )
    return [one.replace(_KEPT, " ") for one in lines]
