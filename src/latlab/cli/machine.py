"""Verbs about this machine: what it can measure, and what runs have left on it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Final

import typer

from latlab.cli.options import Json
from latlab.cli.output import open_console, print_json
from latlab.model.errors import EXIT_LAB, EXIT_OK, UsageError

OVER_SSH: Final = "Over ssh"


def doctor(
    on: Annotated[
        str | None,
        typer.Option(
            "--on",
            metavar="HOST",
            rich_help_panel=OVER_SSH,
            help="Examine a machine over ssh (host or user@host), not this one.",
        ),
    ] = None,
    ssh_config: Annotated[
        Path | None,
        typer.Option(
            "--ssh-config", metavar="FILE", rich_help_panel=OVER_SSH, help="The ssh configuration file to use."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what a machine can measure, and what is missing.

    For each missing prerequisite it says how to get it. It exits with 3 if runs would fail. A machine over ssh needs a
    shell and BusyBox's programs to be examined. The agent is copied there to try BPF programs, and removed again.

    Examples:
        # Before the first run; some checks need root
        sudo latlab doctor
        # A board on the desk
        latlab doctor --on root@board1
    """
    import asyncio

    from latlab.listing import print_findings
    from latlab.testbed.doctor import doctor as examine
    from latlab.testbed.doctor_there import doctor_there

    if on is None and ssh_config is not None:
        raise UsageError("it is for a machine over ssh", where="--ssh-config", remedy="name the machine with --on")
    if on is None:
        findings = asyncio.run(examine())
    else:
        findings = asyncio.run(doctor_there(on, None if ssh_config is None else str(ssh_config)))
    if as_json:
        print_json([dataclasses.asdict(finding) for finding in findings])
    else:
        print_findings(findings, open_console(), "This machine" if on is None else on)
    raise typer.Exit(EXIT_LAB if any(finding.ok is False for finding in findings) else EXIT_OK)


def clean(as_json: Json = False) -> None:
    """Undo what interrupted runs left on this machine.

    It removes namespaces, links and processes, and restores settings. Run folders are kept.

    Examples:
        # After a crash; the next run does the same before it starts
        sudo latlab clean
    """
    import asyncio

    from latlab.report.columns import print_sentence
    from latlab.testbed.undo import clean_stale

    undone = asyncio.run(clean_stale())
    if as_json:
        print_json({"undone": undone})
        return
    console = open_console()
    for line in [f"undone: {line}" for line in undone] or ["nothing to undo"]:
        print_sentence(line, console)
