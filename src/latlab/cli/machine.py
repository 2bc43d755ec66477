"""Verbs about this machine: what it can measure, and what runs have left on it."""

from __future__ import annotations

import dataclasses

import typer

from latlab.cli.options import Json
from latlab.cli.output import open_console, print_json
from latlab.errors import EXIT_LAB, EXIT_OK


def doctor(as_json: Json = False) -> None:
    """Tell what this machine can measure.

    With how to get what is missing.
    """
    import asyncio

    from latlab.lab.doctor import doctor as examine
    from latlab.listing import print_findings

    findings = asyncio.run(examine())
    if as_json:
        print_json([dataclasses.asdict(finding) for finding in findings])
    else:
        print_findings(findings, open_console())
    raise typer.Exit(EXIT_LAB if any(finding.ok is False for finding in findings) else EXIT_OK)


def clean(as_json: Json = False) -> None:
    """Undo what runs cut short have left.

    On this machine; run folders are not touched.
    """
    import asyncio

    from latlab.lab.undo import clean_stale

    undone = asyncio.run(clean_stale())
    if as_json:
        print_json({"undone": undone})
    elif undone:
        for line in undone:
            open_console().print(f"undone: {line}", highlight=False, markup=False)
    else:
        open_console().print("nothing to undo")
