"""What a terminal shows: of what is drawn and taken away again nothing."""

from __future__ import annotations

import re


def screen(written: str) -> list[str]:
    """The lines that a terminal shows after this was written to it, by the few sequences that rich uses."""
    lines, at = [""], 0
    for part in re.findall(r"\x1b\[[?\d;]*[A-Za-z]|\n|\r|[^\x1b\r\n]+", written):
        if part == "\n":
            at += 1
            lines += [""] * (at + 1 - len(lines))
        elif up := re.fullmatch(r"\x1b\[(\d+)A", part):
            at -= int(up[1])
        elif part == "\x1b[2K":
            lines[at] = ""
        elif not part.startswith("\x1b") and part != "\r":
            lines[at] += part
    return [line.rstrip() for line in lines if line.strip()]
