"""The verb that says what an id in a result means."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from latlab.cli.completion import complete_id
from latlab.cli.options import Json
from latlab.cli.output import open_console, print_json


def explain(
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID",
            help="An id, as a verdict has it in parentheses; without it all ids are listed.",
            autocompletion=complete_id,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Explain the id of a rule, a metric or an anomaly class.

    It explains stages, places, timestamps, labels and bridges, too.

    Examples:
        # All ids
        latlab explain
        # A rule that a verdict names, and what to do about it
        latlab explain preempt-rt
        # A metric and an anomaly class
        latlab explain latency stall
        # What a bridge is, and what it needs
        latlab explain macvtap
    """
    from latlab.explain import explained, print_ids, print_topics, topics

    found = explained(ids) if ids else topics()
    if as_json:
        print_json([dataclasses.asdict(topic) for topic in found])
    elif ids:
        print_topics(found, open_console())
    else:
        print_ids(found, open_console())
