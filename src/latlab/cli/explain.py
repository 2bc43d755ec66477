"""The verb that says what an id in a result means."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from latlab.cli.options import Json
from latlab.cli.output import open_console, print_json


def explain(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", help="As a verdict has it in parentheses (several: one after the other)."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print what the id of a rule, class or metric means.

    Of a stage, a place or a timestamp, too; without an id all are listed.
    """
    from latlab.explain import explained, print_ids, print_topics, topics

    found = explained(ids) if ids else topics()
    if as_json:
        print_json([dataclasses.asdict(topic) for topic in found])
    elif ids:
        print_topics(found, open_console())
    else:
        print_ids(found, open_console())
