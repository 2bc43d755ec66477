"""How verbs print: a console for people, one JSON document for programs."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def open_console(*, stderr: bool = False) -> Console:
    """A console at standard output, or at standard error."""
    from latlab.console import make_console

    return make_console(stderr=stderr)


def print_json(document: object) -> None:
    """Nothing; the document is printed as JSON."""
    write(json.dumps(document, indent=2, default=str) + "\n")


def write(text: str) -> None:
    """Nothing; the text is printed as it is. Whoever reads it may stop reading."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        from latlab.console import write_to_nobody

        write_to_nobody(sys.stdout)
