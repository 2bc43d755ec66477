"""Verbs that measure, analyse and report a run, and list those there are."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import typer

from latlab.cli.options import (
    RUNS,
    CheckRepeat,
    Format,
    Formats,
    Jobs,
    Json,
    JUnit,
    Metrics,
    PictureFormat,
    PrintFormat,
    RunName,
    Runs,
    ScenarioName,
    Strict,
    Verbose,
    Where,
    Windows,
)
from latlab.cli.output import open_console, print_json, write
from latlab.errors import making_sense_of, reads_files

if TYPE_CHECKING:
    from latlab.analysis.chosen_windows import Chosen


def run(
    scenario: ScenarioName = None,
    jobs: Jobs = None,
    check_repeat: CheckRepeat = False,
    verbose: Verbose = False,
    metric: Metrics = None,
    picture: Formats = None,
    strict: Strict = False,
    runs: Runs = RUNS,
    as_json: Json = False,
) -> None:
    """Measure every cell of a scenario, and report.

    For each cell latlab builds the test bed, measures, and removes the test bed. It needs root.

    Examples:
        # Every virtual bridge that this machine can make, in a few minutes
        latlab run demo
        # A scenario of your own; a suspect measurement fails, too
        latlab run lab.yaml --strict
        # In a log: a line for each phase, and no pictures
        latlab run lab.yaml --verbose --picture none
    """
    import asyncio

    from latlab.cli.ready_made import scenario_path
    from latlab.console import RunConsole, make_console
    from latlab.measure import run as measure
    from latlab.scenario import load_scenario

    _check_metrics(metric)
    loaded = load_scenario(scenario_path(scenario, "run", as_json=as_json))
    # With --json the document has standard output to itself.
    with RunConsole(make_console(stderr=as_json), verbose=verbose) as console:
        folder = asyncio.run(measure.run(loaded, runs, console.show, check_repeat=check_repeat, jobs=jobs))
    raise typer.Exit(_report(folder, as_json=as_json, strict=strict, metrics=metric, formats=picture))


def report(
    run: RunName = None,
    metric: Metrics = None,
    where: Where = False,
    window: Windows = None,
    picture: Formats = None,
    printed: Format = PrintFormat.TERMINAL,
    strict: Strict = False,
    runs: Runs = RUNS,
    junit: JUnit = None,
    as_json: Json = False,
) -> None:
    """Analyse a run again, and report.

    The figures come from the run's recordings; nothing is measured. The report is written anew.

    Examples:
        # The newest run
        latlab report
        # One metric, as Markdown for an issue
        latlab report 20261122-022817-demo-b141 --metric latency --format md
        # The packets of an interval, beside the whole run
        latlab report --window 10s..60s
        # For a CI job
        latlab report --junit latlab.xml --strict
    """
    from latlab.data.run_folder import RunFolder
    from latlab.errors import UsageError
    from latlab.report.windows import chosen_later

    _check_metrics(metric)
    later = chosen_later(window or ())
    newest = next((path.name for path in sorted(runs.glob("*/run.json"), reverse=True) for path in [path.parent]), None)
    if run is None and newest is None:
        raise UsageError("there are no runs yet", where=str(runs), remedy="latlab run SCENARIO")
    folder = RunFolder.open(run or str(newest), root=runs)
    code = _report(
        folder,
        as_json=as_json,
        strict=strict,
        metrics=metric,
        formats=picture,
        printed=printed,
        where=where,
        later=later,
    )
    if junit is not None:
        from latlab.report.junit import result_junit

        with making_sense_of(folder.path):
            junit.write_text(result_junit(folder.result(), strict=strict), encoding="utf-8")
    raise typer.Exit(code)


def list_(as_json: Json = False, runs: Runs = RUNS) -> None:
    """List the runs, newest first.

    Examples:
        # Each run with its scenario, exit code and verdict
        latlab list
        # Of another folder, for a program
        latlab list --runs /srv/runs --json
    """
    from latlab.data.run_folder import list_runs
    from latlab.listing import print_runs

    found = list_runs(runs)
    if as_json:
        print_json([dataclasses.asdict(one) | {"path": str(one.path)} for one in found])
    else:
        print_runs(found, runs, open_console())


@reads_files
def _report(
    folder: Any,
    *,
    as_json: bool,
    strict: bool,
    metrics: list[str] | None,
    formats: list[PictureFormat] | None,
    printed: PrintFormat = PrintFormat.TERMINAL,
    where: bool = False,
    later: Sequence[Chosen] = (),
) -> int:
    """The exit code; the result is written and printed, and the report is written."""
    from latlab.console import make_console, told_while
    from latlab.report.build import write_report
    from latlab.report.imported import is_imported, shown_metrics
    from latlab.report.picture_process import picture_process
    from latlab.report.result import exit_code, make_result, unread_limits
    from latlab.report.terminal import default_metrics, print_result

    drawn = [one for one in formats or [PictureFormat.PNG] if one != PictureFormat.NONE]
    # Begun now, it has imported what draws when the result is there.
    with picture_process(folder, drawn) or nullcontext() as beside:
        console = make_console(stderr=as_json or printed == PrintFormat.MD)
        with told_while("analysing", console):
            result = make_result(folder, later)
        if unread := unread_limits(folder.scenario_path):
            sys.stderr.write(f"latlab: {unread}\n")
        code = exit_code(result, strict=strict)
        folder.write_run(folder.run() | {"exit_status": code})
        console.print("drawing the report", highlight=False)
        shown = metrics or (shown_metrics(result) if is_imported(result) else default_metrics(result))
        pictured = None if formats else metrics or shown[:1]
        with told_while("drawing the report", console):
            page = write_report(folder, formats=drawn, pictured=pictured, beside=beside)
    if as_json:
        print_json(result)
    elif printed == PrintFormat.MD:
        from latlab.report.markdown import result_markdown

        write(result_markdown(result, shown))
    else:
        print_result(result, open_console(), shown, where=where)
        open_console().print(f"Report: {page.resolve()}", highlight=False, markup=False, soft_wrap=True)
    return code


def _check_metrics(names: list[str] | None) -> None:
    """Nothing. UsageError: a name that is no metric's."""
    from latlab.analysis.metrics import METRICS_BY_NAME
    from latlab.errors import UsageError

    for name in names or ():
        if name not in METRICS_BY_NAME:
            known = ", ".join(METRICS_BY_NAME)
            raise UsageError(f"there is no metric {name!r}", where="--metric", remedy=f"one of {known}")
