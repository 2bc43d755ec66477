"""Verbs about this machine: what it can measure, and what runs have left on it."""

from __future__ import annotations

import dataclasses

import typer

from latlab.cli.options import Json
from latlab.cli.output import open_console, print_json
from latlab.errors import EXIT_LAB, EXIT_OK


def doctor(as_json: Json = False) -> None:
    """Show what this machine can measure, and what is missing.

    For each missing prerequisite it says how to get it. It exits with 3 if runs would fail.

    Examples:
        # Before the first run; some checks need root
        sudo latlab doctor
    """
    import asyncio

    from latlab.listing import print_findings
    from latlab.testbed.doctor import doctor as examine

    findings = asyncio.run(examine())
    if as_json:
        print_json([dataclasses.asdict(finding) for finding in findings])
    else:
        print_findings(findings, open_console())
    raise typer.Exit(EXIT_LAB if any(finding.ok is False for finding in findings) else EXIT_OK)


def clean(as_json: Json = False) -> None:
    """Undo what interrupted runs left on this machine.

    It removes namespaces, links and processes, and restores settings. Run folders are kept.

    Examples:
        # After a crash; the next run does the same before it starts
        sudo latlab clean
    """
    import asyncio

    from latlab.testbed.undo import clean_stale

    undone = asyncio.run(clean_stale())
    if as_json:
        print_json({"undone": undone})
    elif undone:
        for line in undone:
            open_console().print(f"undone: {line}", highlight=False, markup=False)
    else:
        open_console().print("nothing to undo")
