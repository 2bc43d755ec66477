"""How verbs print: a console for people, one JSON document for programs."""

from __future__ import annotations

import codecs
import errno
import io
import json
import shutil
import sys
from typing import TYPE_CHECKING, Final

from latlab.model.errors import LabError
from latlab.model.lines import folded

if TYPE_CHECKING:
    from rich.console import Console

# fmt: off
_ASCII: Final = {
    "µ": "u", "μ": "u", "±": "+-", "−": "-", "–": "-", "…": "...", "→": "->", "←": "<-", "⇄": "<->", "×": "x",
    "·": "-", "≥": ">=", "≤": "<=", "²": "^2", "∞": "inf", "█": "#", "▒": "+", "▲": "^", "○": "o",
    "✓": "yes", "✗": "no",
}
# fmt: on
"""What is printed for characters that a terminal does not have; `?` for any other."""


def replace_characters() -> None:
    """Make standard output and error print as ASCII what the terminal's encoding does not have, without errors."""
    codecs.register_error("latlab", _as_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="latlab")


def _as_ascii(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    missing = error.object[error.start : error.end]
    return "".join(_ASCII.get(character, "?") for character in missing), error.end


def open_console(*, stderr: bool = False) -> Console:
    """A console at standard output, or at standard error."""
    from latlab.console import make_console

    return make_console(stderr=stderr)


def print_error(text: object) -> None:
    """Print it on standard error: on a terminal folded between words, elsewhere each of its lines as one."""
    lines = f"latlab: {text}".splitlines()
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        lines = [piece for line in lines for piece in folded(line, width)]
    sys.stderr.write("\n".join(lines) + "\n")


def print_json(document: object) -> None:
    """Print the document as JSON."""
    write(json.dumps(document, indent=2, default=str) + "\n")


def write(text: str) -> None:
    """Print the text as it is. Its reader may stop reading. LabError: what it is written to takes no more."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        refused = _no_more(error)
        if not isinstance(error, BrokenPipeError):
            raise refused from None


def refused_output(error: OSError) -> LabError | None:
    """That standard output takes no more, where that is what the error says; None of another error."""
    if error.filename is not None or isinstance(error, BrokenPipeError):
        return None
    try:
        # Who printed does not say where to: what takes nothing takes no empty line either.
        sys.stdout.write("\n")
        sys.stdout.flush()
    except OSError as again:
        return _no_more(again)
    return None


def _no_more(error: OSError) -> LabError:
    """That standard output takes no more; what is printed after that goes nowhere."""
    from latlab.console import write_to_nobody

    write_to_nobody(sys.stdout)
    remedy = "free space, or redirect it elsewhere" if error.errno == errno.ENOSPC else ""
    return LabError(f"cannot be written: {error.strerror}", where="standard output", remedy=remedy)
