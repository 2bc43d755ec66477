"""Sentences as lines of a terminal."""

from __future__ import annotations

from textwrap import wrap


def folded(line: str, width: int, *, indent: int = 0) -> list[str]:
    """The lines of a sentence, its continuation indented. A path or another word that is wider stays in one piece."""
    words = line.lstrip()
    before = " " * (len(line) - len(words) + indent)
    return wrap(
        words,
        width,
        initial_indent=before,
        subsequent_indent=f"{before}  ",
        break_on_hyphens=False,
        break_long_words=False,
    )
