"""A comparison as tables in a terminal or a file, readable in 80 columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from latlab.report.comparison.lines import Block, blocks, is_blank, legend, powerless, remarks, summary

_MOST: Final = 12
"""How many lines of one kind of remark are told; all of them are in the JSON document."""


def print_comparison(document: Mapping[str, Any], console: Console) -> None:
    """Nothing; the comparison is printed: who is compared, each table with its sentences, and what else is known."""
    _say(console, *legend(document))
    console.print()
    for block in blocks(document):
        if block.where:
            console.print(Text(block.where, style="bold"))
        console.print(Text(block.title, style="" if block.where else "bold"))
        console.print(_table(block))
        _say(console, *(f"  {line}" for line in block.lines))
        console.print()
    for heading, lines in remarks(document, _MOST):
        _say(console, heading, *(f"  {line}" for line in lines))
        console.print()
    console.print(Text(summary(document), style="bold"))
    if coarse := powerless(document):
        console.print(Text(coarse, style="bold yellow"))


def _table(block: Block) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for number, heading in enumerate(block.headings):
        table.add_column(Text(heading), justify="right" if number else "left", overflow="fold")
    for one, row in zip((one for one in block.entries if not is_blank(one)), block.rows, strict=True):
        style = "bold" if one["shown"] else ""
        table.add_row(*(Text(text, style=style) for text in row))
    return table


def _say(console: Console, *lines: str) -> None:
    """Each line as it is, folded where the terminal is narrow; what is in square brackets is no markup."""
    for line in lines:
        indent = len(line) - len(line.lstrip())
        for number, part in enumerate(Text(line.strip()).wrap(console, max(20, console.width - indent - 2))):
            part.rstrip()
            console.print(Text(" " * (indent + 2 * bool(number))) + part)
