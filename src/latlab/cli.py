"""The command line: verbs, thin. Each does one call and prints what came of it."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import signal
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import latlab
from latlab.errors import EXIT_LAB, EXIT_OK, LatlabError, system_error

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(
    name="latlab",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="How late time-sensitive packets arrive when a virtual machine is in the path, and why.\n\n"
    "Exit codes: 0 fine; 1 an accept limit was exceeded; 2 scenario or usage error; 3 the lab failed; "
    "4 the measurement cannot be trusted.",
)


images = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Build, list and remove images for guests and boards."
)
app.add_typer(images, name="image")


class PictureFormat(StrEnum):
    """What pictures can be written as."""

    PNG = "png"
    SVG = "svg"
    PDF = "pdf"
    NONE = "none"


ScenarioFile = Annotated[Path, typer.Argument(metavar="SCENARIO", help="The scenario file (YAML).")]
RunName = Annotated[
    str | None,
    typer.Argument(metavar="RUN", help="A run folder, or its name in --runs; the newest one if not given."),
]
ImageName = Annotated[
    str | None,
    typer.Argument(metavar="NAME", help="The image's name; debian-cloud if not given, with --board debian-rt-board."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Runs = Annotated[Path, typer.Option("--runs", metavar="FOLDER", help="Where run folders are kept.")]
Strict = Annotated[bool, typer.Option("--strict", help="Exit with 4 if the measurement is suspect, too.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Tell each cell's phases, a line each.")]
CheckRepeat = Annotated[
    bool,
    typer.Option("--check-repeat", help="Measure each cell twice, and tell by how much its packets differ at most."),
]
Metrics = Annotated[
    list[str] | None,
    typer.Option("--metric", metavar="NAME", help="Show this metric's table (may be given several times)."),
]
Formats = Annotated[
    list[PictureFormat] | None,
    typer.Option("--picture", help="Format of the pictures (may be given several times), or none; png if not given."),
]
RUNS = Path("runs")
INTERRUPTED = 130


@app.command()
def doctor(as_json: Json = False) -> None:
    """Tell what this machine can measure.

    With how to get what is missing.
    """
    from latlab.lab.doctor import doctor as examine
    from latlab.listing import print_findings

    findings = asyncio.run(examine())
    if as_json:
        _print_json([dataclasses.asdict(finding) for finding in findings])
    else:
        print_findings(findings, _console())
    raise typer.Exit(EXIT_LAB if any(finding.ok is False for finding in findings) else EXIT_OK)


@app.command()
def validate(scenario: ScenarioFile, as_json: Json = False) -> None:
    """Check a scenario; nothing is run.

    Every mistake is told at once, with its line, and whether this machine can run it.
    """
    from latlab.console import runs_of_cells
    from latlab.lab.guests.unavailable import summed_up, unavailable_here
    from latlab.lab.preflight import preflight_cells
    from latlab.scenario import cells, load_scenario

    loaded = load_scenario(scenario)
    found = cells(loaded)
    lacking = preflight_cells(loaded)
    not_here = {cell.slug: summed_up(reasons) for cell in found if (reasons := unavailable_here(cell.scenario))}
    if as_json:
        machine = [problem.as_dict() for problem in lacking]
        document: dict[str, Any] = {"scenario": loaded.scenario.name, "cells": [cell.slug for cell in found]}
        document |= {"unavailable": {slug: reason.as_dict() for slug, reason in not_here.items()}}
        _print_json(document | {"problems": [], "machine": machine})
        return
    for problem in lacking:
        _console().print(f"on this machine it cannot run: {problem}", highlight=False, markup=False, soft_wrap=True)
    streams, repeat = len(loaded.scenario.streams), loaded.scenario.repeat
    _console().print(
        f"{scenario}: {'right in itself' if lacking else 'fine'}. {runs_of_cells(len(found) * repeat, len(found))}, "
        f"{streams} stream{'s' if streams > 1 else ''}:",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    for cell in found:
        reason = not_here.get(cell.slug)
        said = f"  {cell.slug}" + (f": unavailable on this machine: {reason}" if reason else "")
        _console().print(said, highlight=False, markup=False, soft_wrap=True)


@app.command()
def plan(scenario: ScenarioFile, as_json: Json = False) -> None:
    """Print every command a run would give.

    Host by host, ready to paste; nothing is run.
    """
    from latlab.measure import run as measure
    from latlab.scenario import load_scenario

    text = measure.plan(load_scenario(scenario))
    if as_json:
        _print_json({"plan": text.splitlines()})
    else:
        _write(text)


@app.command()
def gates(
    scenario: ScenarioFile,
    as_json: Json = False,
    picture: Annotated[
        Path | None,
        typer.Option("--picture", metavar="FILE", help="Draw the schedules, too: a .png, .svg or .pdf file."),
    ] = None,
) -> None:
    """Show gate schedules, and what they promise.

    Of each stream when its packets depart, how long they wait, and what keeps the schedule from doing what it seems
    to; nothing is run.
    """
    from latlab.gates_listing import print_gates
    from latlab.report.gates import Promised, as_document, schedules
    from latlab.scenario import load_scenario

    loaded = load_scenario(scenario)
    found = [(group.cells, [Promised.of(port) for port in group.ports]) for group in schedules(loaded.combinations)]
    if picture is not None:
        from latlab.report.gates_picture import write_gates_picture

        write_gates_picture(loaded.scenario.name, found, picture)
    if as_json:
        listed = [{"cells": cells, "ports": [as_document(port) for port in ports]} for cells, ports in found]
        _print_json({"scenario": loaded.scenario.name, "schedules": listed})
    else:
        print_gates(found, _console())
        if picture is not None:
            _console().print(f"Picture: {picture.resolve()}", highlight=False, markup=False, soft_wrap=True)


@app.command()
def run(
    scenario: ScenarioFile,
    as_json: Json = False,
    runs: Runs = RUNS,
    strict: Strict = False,
    metric: Metrics = None,
    picture: Formats = None,
    verbose: Verbose = False,
    check_repeat: CheckRepeat = False,
) -> None:
    """Run a scenario and report.

    The test bed is built, measured on and taken down again for each cell.
    """
    from latlab.console import RunConsole, make_console
    from latlab.measure import run as measure
    from latlab.scenario import load_scenario

    _check_metrics(metric)
    loaded = load_scenario(scenario)
    # With --json the document has standard output to itself.
    with RunConsole(make_console(stderr=as_json), verbose=verbose) as console:
        folder = asyncio.run(measure.run(loaded, runs, console.show, check_repeat=check_repeat))
    raise typer.Exit(_report(folder, as_json=as_json, strict=strict, metrics=metric, formats=picture))


@app.command()
def report(
    run: RunName = None,
    as_json: Json = False,
    runs: Runs = RUNS,
    strict: Strict = False,
    metric: Metrics = None,
    picture: Formats = None,
) -> None:
    """Analyse and report a run again.

    From its recordings; the report is written anew.
    """
    from latlab.data.run_folder import RunFolder
    from latlab.errors import UsageError

    _check_metrics(metric)
    newest = next((path.name for path in sorted(runs.glob("*/run.json"), reverse=True) for path in [path.parent]), None)
    if run is None and newest is None:
        raise UsageError("there are no runs yet", where=str(runs), remedy="latlab run SCENARIO")
    folder = RunFolder.open(run or str(newest), root=runs)
    raise typer.Exit(_report(folder, as_json=as_json, strict=strict, metrics=metric, formats=picture))


@app.command(name="list")
def list_(as_json: Json = False, runs: Runs = RUNS) -> None:
    """List the runs, newest first."""
    from latlab.data.run_folder import list_runs
    from latlab.listing import print_runs

    found = list_runs(runs)
    if as_json:
        _print_json([dataclasses.asdict(one) | {"path": str(one.path)} for one in found])
    else:
        print_runs(found, runs, _console())


@app.command()
def clean(as_json: Json = False) -> None:
    """Undo what runs cut short have left.

    On this machine; run folders are not touched.
    """
    from latlab.lab.undo import clean_stale

    undone = asyncio.run(clean_stale())
    if as_json:
        _print_json({"undone": undone})
    elif undone:
        for line in undone:
            _console().print(f"undone: {line}", highlight=False, markup=False)
    else:
        _console().print("nothing to undo")


@images.command(name="build")
def image_build(
    name: ImageName = None,
    flavour: Annotated[
        str | None,
        typer.Option("--flavour", metavar="NAME", help="Debian's kernel, for a name of your own: cloud, standard, rt."),
    ] = None,
    package: Annotated[
        list[str] | None,
        typer.Option("--package", metavar="NAME", help="Take in this Debian package (may be given several times)."),
    ] = None,
    board: Annotated[
        bool, typer.Option("--board", help="For a board: a machine in which a whole test bed is made, guests and all.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Build it even if nothing has changed.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing unless it is built.")] = False,
    as_json: Json = False,
) -> None:
    """Build an image of Debian packages, for a guest or a board.

    debian-cloud, debian-standard, debian-rt, debian-rt-board, or one of a name of your own. Nothing is installed on
    this machine.
    """
    from latlab.image_listing import print_images
    from latlab.lab.agent_binary import find_agent
    from latlab.lab.images import BOARD_KIND, build_image

    agent, console = find_agent(), _console(stderr=True)
    image = build_image(
        name,
        flavour,
        package or (),
        agent,
        kind=BOARD_KIND if board else None,
        force=force,
        say=lambda line: console.print(line, highlight=False, markup=False, soft_wrap=True),
    )
    if as_json:
        _print_json(image.as_dict())
    elif not quiet:
        print_images([image], agent, _console())


@images.command(name="list")
def image_list(as_json: Json = False) -> None:
    """List the images that were built."""
    from latlab.image_listing import print_images
    from latlab.lab.agent_binary import find_agent
    from latlab.lab.images import list_images

    found, agent = list_images(), find_agent()
    if as_json:
        _print_json([image.as_dict() | {"up_to_date": image.is_up_to_date(agent)} for image in found])
    else:
        print_images(found, agent, _console())


@images.command(name="clean")
def image_clean(name: Annotated[str | None, typer.Argument(metavar="NAME")] = None, as_json: Json = False) -> None:
    """Remove images, with their snapshots.

    That one, or all, and with all the packages that were fetched.
    """
    from latlab.lab.images import clean_images

    removed = clean_images([name] if name else [])
    if as_json:
        _print_json({"removed": removed})
    else:
        for line in removed or ["nothing to remove"]:
            _console().print(line if not removed else f"removed: {line}", highlight=False, markup=False)


def _report(
    folder: Any, *, as_json: bool, strict: bool, metrics: list[str] | None, formats: list[PictureFormat] | None
) -> int:
    """The exit code; the result is written and printed, and the report is written."""
    from latlab.console import make_console
    from latlab.report.build import write_report
    from latlab.report.result import exit_code, make_result
    from latlab.report.terminal import default_metrics, print_result

    result = make_result(folder)
    code = exit_code(result, strict=strict)
    folder.write_run(folder.run() | {"exit_status": code})
    make_console(stderr=as_json).print("drawing the report", highlight=False)
    drawn = [one for one in formats or [PictureFormat.PNG] if one != PictureFormat.NONE]
    page = write_report(folder, formats=drawn)
    if as_json:
        _print_json(result)
    else:
        print_result(result, _console(), metrics or default_metrics(result))
        _console().print(f"Report: {page.resolve()}", highlight=False, markup=False, soft_wrap=True)
    return code


def _check_metrics(names: list[str] | None) -> None:
    """Nothing. UsageError: a name that is no metric's."""
    from latlab.errors import UsageError
    from latlab.scenario.limits import METRICS

    for name in names or ():
        if name not in METRICS:
            raise UsageError(f"there is no metric {name!r}", where="--metric", remedy=f"one of {', '.join(METRICS)}")


def _console(*, stderr: bool = False) -> Console:
    from latlab.console import make_console

    return make_console(stderr=stderr)


def _print_json(document: object) -> None:
    _write(json.dumps(document, indent=2, default=str) + "\n")


def _write(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        from latlab.console import write_to_nobody

        write_to_nobody(sys.stdout)


def _version(wanted: bool) -> None:
    if wanted:
        _write(f"latlab {latlab.__version__}\n")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options before the verb."""


def main() -> None:
    """Runs the command line; errors are one line on standard error and an exit code."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # what nohup has this ignore stays ignored
            signal.signal(number, _as_by_ctrl_c)
    try:
        app()
    except LatlabError as error:
        sys.exit(_failed(error))
    except OSError as error:
        sys.exit(_failed(system_error(error)))
    except SystemExit as end:
        # What the command line library makes of Ctrl-C is none of our exit codes.
        if end.code != INTERRUPTED:
            raise
        sys.stderr.write("latlab: interrupted\n")
        sys.exit(EXIT_LAB)


def _as_by_ctrl_c(number: int, frame: object) -> None:
    """Nothing; whoever waits for SIGINT at this moment has been told."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # what a script starts in the background is to ignore it
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)


def _failed(error: LatlabError) -> int:
    """The exit code; the error has been told."""
    if "--json" in sys.argv:
        _print_json({"error": error.as_dict(), "exit_status": error.exit_code})
    sys.stderr.write(f"latlab: {error}\n")
    return error.exit_code
