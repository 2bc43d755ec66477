"""What the doctor found, and which runs and images there are, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from latlab.recordings.run_folder import RunSummary
from latlab.report.columns import print_sentence, print_table
from latlab.report.document import OneOf, Table, Tone, Toned
from latlab.testbed.doctor import DoctorFinding, worth_doing
from latlab.testbed.guests.start import is_current
from latlab.testbed.images import Image, image_directory

_MARKS: Final[dict[bool | None, tuple[str, Tone]]] = {
    True: ("ok", "good"),
    False: ("missing", "bad"),
    None: ("limited", "changed"),
}
_AGAIN: Final = "as above"
_RUN_COLUMNS: Final = ("run", "scenario", "started (UTC)", "exit", "verdict")
_RUN_SHAPES: Final = ((0, 1, 2, 3, 4), (0, 2, 3, 4), (0, 3, 4))
"""What a narrow terminal leaves out is in the run's name."""


def print_findings(findings: Sequence[DoctorFinding], console: Console, machine: str = "This machine") -> None:
    """Print the doctor's findings by area, each with its remedy. machine: what the last line calls the machine."""
    rows: list[tuple[str, ...]] = []
    before: DoctorFinding | None = None
    for finding in findings:
        shown = "" if before and finding.area == before.area else finding.area
        is_again = before and finding.remedy and (finding.found, finding.remedy) == (before.found, before.remedy)
        said = (_AGAIN, "") if is_again else (finding.found, finding.remedy)
        before = finding
        rows.append((shown, Toned(*_MARKS[finding.ok]), finding.name, *said))
    print_table(Table(("area", "", "what", "found", "how to get it"), rows), console)
    console.print()
    missing = sum(finding.ok is False for finding in findings)
    limited = sum(finding.ok is None for finding in findings)
    if missing:
        print_sentence(f"{missing} missing: required for runs. {limited} limited.", console)
    else:
        print_sentence(f"{machine} can measure. {limited} limited.", console)
    if worth := worth_doing(findings):
        print_sentence("Most useful first:", console)
    for line in worth:
        print_sentence(f"  {line}", console)


def print_runs(runs: Sequence[RunSummary], root: Path, console: Console) -> None:
    """Print the runs, newest first."""
    if not runs:
        print_sentence(f"no runs in {root} yet: latlab run SCENARIO", console)
        return
    rows = [
        (
            run.run,
            run.name or "",
            _instant(run.started or ""),
            "" if run.exit_status is None else str(run.exit_status),
            _verdict(run),
        )
        for run in runs
    ]
    shapes = [
        [Table([_RUN_COLUMNS[one] for one in shape], [[row[one] for one in shape] for row in rows])]
        for shape in _RUN_SHAPES
    ]
    print_table(OneOf(shapes), console)


def print_images(images: Sequence[Image], console: Console) -> None:
    """Print the images, by name, each with whether it has this latlab's agent in it."""
    if not images:
        print_sentence(f"no images in {image_directory()} yet: latlab image build", console)
        return
    current = {image.name: is_current(image) for image in images}
    headings = ("image", "kind", "size", "built (UTC)", "up to date", "kernel", "other packages")
    rows = [
        (
            image.name,
            image.kind,
            f"{image.size / 1e6:4.0f} MB",
            _instant(image.built),
            "yes" if current[image.name] else "no",
            image.kernel_version,
            " ".join(image.extra),
        )
        for image in images
    ]
    print_table(Table(headings, rows).filled(), console)
    if old := [image for image in images if not current[image.name]]:
        console.print()
        print_sentence("Not up to date; to build again:", console)
    for image in old:
        print_sentence(f"  {image.build_command()}", console)


def _instant(iso: str) -> str:
    """An instant in UTC, to the second."""
    return iso.replace("T", " ").removesuffix("+00:00").partition(".")[0]


def _verdict(run: RunSummary) -> str:
    """The verdict; of a run that has none why: it is running, was killed, or its report was never made."""
    if run.verdict:
        return run.verdict
    return "not reported" if run.status in ("ended", "interrupted") else run.status or ""
