"""What the doctor found, and which runs there are, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from latlab.recordings.run_folder import RunSummary
from latlab.testbed.doctor import worth_doing
from latlab.testbed.finding import Finding

_MARKS = {True: ("ok", "green"), False: ("missing", "bold red"), None: ("limited", "yellow")}


def print_findings(findings: Sequence[Finding], console: Console, machine: str = "This machine") -> None:
    """Print the doctor's findings by area, each with its remedy. machine: what the last line calls the machine."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("", "area", "what", "found", "how to get it"):
        table.add_column(heading, overflow="fold")
    area = ""
    for finding in findings:
        mark, style = _MARKS[finding.ok]
        shown = "" if finding.area == area else finding.area
        area = finding.area
        table.add_row(Text(mark, style), *map(Text, (shown, finding.name, finding.found, finding.remedy)))
    console.print(table)
    missing = sum(finding.ok is False for finding in findings)
    limited = sum(finding.ok is None for finding in findings)
    if missing:
        console.print(f"{missing} missing: runs will fail without. {limited} limited.", highlight=False)
    else:
        console.print(f"{machine} can measure. {limited} limited.", highlight=False, markup=False)
    if worth := worth_doing(findings):
        console.print("Most useful first:", highlight=False)
    for line in worth:
        console.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)


def print_runs(runs: Sequence[RunSummary], root: Path, console: Console) -> None:
    """Nothing; the runs are printed, newest first."""
    if not runs:
        console.print(f"no runs in {root} yet: latlab run SCENARIO", highlight=False, markup=False)
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("run", "scenario", "started (UTC)", "exit", "verdict"):
        table.add_column(heading, overflow="fold")
    for run in runs:
        started = (run.started or "").replace("T", " ").removesuffix("+00:00")
        status = "" if run.exit_status is None else str(run.exit_status)
        table.add_row(*map(Text, (run.run, run.name or "", started, status, _verdict(run))))
    console.print(table)


def _verdict(run: RunSummary) -> str:
    """The verdict; of a run that has none why: it is running, was killed, or its report was never made."""
    if run.verdict:
        return run.verdict
    return "not reported" if run.status in ("ended", "interrupted") else run.status or ""
