"""Verbs that measure, analyse and report a run, and list those there are."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from latlab.cli.completion import complete_shown
from latlab.cli.options import (
    RUNS,
    TERMINAL,
    CheckRepeat,
    Format,
    Formats,
    Full,
    Jobs,
    Json,
    JUnit,
    Live,
    Metrics,
    PictureFormat,
    RunName,
    Runs,
    ScenarioName,
    Strict,
    Trigger,
    Verbose,
    Windows,
)
from latlab.cli.output import open_console, print_error, print_json, write
from latlab.model.errors import making_sense_of, reads_files, writing

if TYPE_CHECKING:
    from latlab.analysis.windows import Named
    from latlab.recordings.run_folder import RunFolder
    from latlab.result.types import Result

_ALL: Final = "all"
"""The name of all sections together."""
_NEXT: Final = 8
"""The column at which commands to read on with begin."""


def run(
    scenario: ScenarioName = None,
    jobs: Jobs = None,
    check_repeat: CheckRepeat = False,
    trigger: Trigger = None,
    live: Live = False,
    verbose: Verbose = False,
    metric: Metrics = None,
    full: Full = False,
    picture: Formats = None,
    strict: Strict = False,
    runs: Runs = RUNS,
    as_json: Json = False,
) -> None:
    """Measure every cell of a scenario, and report.

    For each cell latlab builds the test bed, measures, and removes the test bed. It needs root.
    Ctrl-C ends the measurement in order: what was measured until then is reported.

    Examples:
        # Every virtual bridge that this machine can make, in a few minutes
        latlab run demo
        # Your own scenario; a suspect measurement fails, too
        latlab run lab.yaml --strict
        # With the streams' figures of the last second while it measures
        latlab run lab.yaml --live
        # Why were the late ones late? Only what is around them is traced
        latlab run lab.yaml --trigger 'latency > 500us'
        # In a log: a line for each phase, and no pictures
        latlab run lab.yaml --verbose --picture none
    """
    import asyncio

    from latlab.cli.ready_made import scenario_path
    from latlab.console import RunConsole, make_console
    from latlab.run import matrix as measure
    from latlab.scenario import load_scenario, with_trigger

    _check_metrics(metric)
    loaded = load_scenario(scenario_path(scenario, "run", as_json=as_json))
    if trigger is not None:
        loaded = with_trigger(loaded, trigger)
    # With --json the document has standard output to itself.
    with RunConsole(make_console(stderr=as_json), verbose=verbose, live=live) as console:
        running = measure.run(loaded, runs, console.show, check_repeat=check_repeat, jobs=jobs, live=live)
        folder = asyncio.run(running)
    raise typer.Exit(report_run(folder, as_json=as_json, strict=strict, metrics=metric, formats=picture, full=full))


def report(
    run: RunName = None,
    metric: Metrics = None,
    full: Full = False,
    window: Windows = None,
    picture: Formats = None,
    printed: Format = TERMINAL,
    strict: Strict = False,
    runs: Runs = RUNS,
    junit: JUnit = None,
    as_json: Json = False,
) -> None:
    """Analyse a run again, and report.

    The figures come from the run's recordings; nothing is measured. The report is written again.

    Examples:
        # The newest run
        latlab report
        # One metric, as Markdown for an issue
        latlab report 20261122-022817-demo-b141 --metric latency --format md
        # The packets of an interval, and the whole run
        latlab report --window 10s..60s
        # For a CI job
        latlab report --junit latlab.xml --strict
    """
    from latlab.evaluation.windows import chosen_later

    _check_metrics(metric)
    _check_format(printed)
    later = chosen_later(window or ())
    folder = _opened(run, runs)
    _finish(folder)
    code = report_run(
        folder,
        as_json=as_json,
        strict=strict,
        metrics=metric,
        formats=picture,
        printed=printed,
        full=full,
        later=later,
    )
    if junit is not None:
        from latlab.report.junit import result_junit
        from latlab.result import load_result

        with making_sense_of(folder.path):
            text = result_junit(load_result(folder), strict=strict)
        with writing(junit):
            junit.write_text(text, encoding="utf-8")
    raise typer.Exit(code)


def show(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="A run, the newest if not given, then sections of its report.",
            autocompletion=complete_shown,
        ),
    ] = None,
    metric: Metrics = None,
    runs: Runs = RUNS,
    as_json: Json = False,
) -> None:
    """Print what a run found, or sections of its report.

    Nothing is analysed again. The sections are cells, intervals, variation, comparison, stages, timers, missing,
    anomalies, losses, loads, talkers, gates, ptp, clocks, testbed, tools, limits and trust; all prints every one.

    Examples:
        # What the newest run found
        latlab show
        # Where the time went in each of its cells
        latlab show stages
        # Why its verdict is what it is, and what bounds the clocks
        latlab show trust clocks
    """
    from difflib import get_close_matches

    from latlab.model.errors import UsageError
    from latlab.report.sections import SECTIONS

    _check_metrics(metric)
    wanted = [name for name in names or () if name in SECTIONS or name == _ALL]
    others = [name for name in names or () if name not in wanted]
    if len(others) > 1:
        raise UsageError(
            f"neither a run nor a section: {', '.join(others[1:])}",
            where="latlab show",
            remedy=f"a section is one of {', '.join(SECTIONS)}, {_ALL}",
        )
    try:
        folder = _opened(others[0] if others else None, runs)
    except UsageError:
        near = get_close_matches(others[0].lower(), [*SECTIONS, _ALL], n=1) if others else []
        if not near:
            raise
        remedy = f"the nearest section is {near[0]}; `latlab list` has the runs"
        raise UsageError("neither a run nor a section", where=others[0], remedy=remedy) from None
    _show(folder, wanted, as_json=as_json, metrics=metric)


@reads_files
def _show(folder: Any, wanted: Sequence[str], *, as_json: bool, metrics: list[str] | None) -> None:
    from latlab.report.sections import Shown, has_others, shown_metrics
    from latlab.report.terminal import print_answer, print_result, print_section
    from latlab.result import load_result

    if as_json:
        print_json(folder.result())
        return
    result = load_result(folder)
    console = open_console()
    metrics = _there(metrics, result)
    every = bool(metrics) or has_others(result)
    metrics = metrics or list(shown_metrics(result))
    if not wanted:
        print_answer(result, metrics, console, every=every)
    if _ALL in wanted:
        print_result(result, console, metrics, folder)
        return
    for name in wanted:
        print_section(name, Shown(result, metrics, folder), console)


def list_(as_json: Json = False, runs: Runs = RUNS) -> None:
    """List the runs, newest first.

    Examples:
        # Each run with its scenario, exit code and verdict
        latlab list
        # Of another folder, for a program
        latlab list --runs /srv/runs --json
    """
    from latlab.listing import print_runs
    from latlab.recordings.run_folder import list_runs

    found = list_runs(runs)
    if as_json:
        print_json([dataclasses.asdict(one) | {"path": str(one.path)} for one in found])
    else:
        print_runs(found, runs, open_console())


def _opened(run: str | None, runs: Path) -> RunFolder:
    """The run of that name, or the newest. UsageError: there is none."""
    from latlab.model.errors import UsageError
    from latlab.recordings.run_folder import RunFolder

    newest = _newest(runs)
    if run is None and newest is None:
        raise UsageError("there are no runs yet", where=str(runs), remedy="latlab run SCENARIO")
    return RunFolder.open(run or str(newest and newest.name), root=runs)


def _newest(runs: Path) -> Path | None:
    """The folder of the newest run there."""
    return next((path.parent for path in sorted(runs.glob("*/run.json"), reverse=True)), None)


@reads_files
def _finish(folder: RunFolder) -> None:
    """Make the cells of packets that were watched by a lab that was killed; do nothing with any other run."""
    if folder.watch_path.exists():
        from latlab.run.watch import finish_watch, is_unfinished_watch

        if is_unfinished_watch(folder):
            finish_watch(folder)


@reads_files
def report_run(
    folder: RunFolder,
    *,
    as_json: bool,
    strict: bool,
    metrics: list[str] | None,
    formats: list[PictureFormat] | None,
    printed: str = TERMINAL,
    full: bool = False,
    later: Sequence[Named] = (),
) -> int:
    """The exit code; the result is written and printed, and the report is written."""
    from latlab.console import make_console, told_while
    from latlab.evaluation.run import exit_code, make_result
    from latlab.evaluation.scenario import unread_limits
    from latlab.report.build import write_report
    from latlab.report.charts.files import picture_process
    from latlab.report.sections import has_others, shown_metrics
    from latlab.report.terminal import print_answer, print_result

    drawn = [one for one in formats or [PictureFormat.PNG] if one != PictureFormat.NONE]
    # Begun now, it has imported what draws when the result is there.
    with picture_process(folder, drawn) or nullcontext() as beside:
        console = make_console(stderr=as_json or printed != TERMINAL)
        with told_while("analysing", console):
            result = make_result(folder, later)
        if unread := unread_limits(folder.scenario_path):
            print_error(unread)
        code = exit_code(result, strict=strict)
        folder.write_run(folder.run().reported(code))
        console.print("drawing the report", highlight=False)
        metrics = _there(metrics, result)
        shown = metrics or shown_metrics(result)
        pictured = None if formats else metrics or shown[:1]
        with told_while("drawing the report", console):
            page = write_report(folder, formats=drawn, pictured=pictured, beside=beside)
    if as_json:
        print_json(result.document())
    elif printed != TERMINAL:
        from latlab.report.formats import FORMATS

        write(FORMATS[printed].result(result, shown, folder))
    else:
        console = open_console()
        after = [f"Report: {page.resolve()}"]
        if full:
            print_result(result, console, shown, folder)
            console.print(*after, highlight=False, markup=False, soft_wrap=True)
        else:
            after += _next_lines(result, folder.path, console.width)
            print_answer(result, shown, console, every=bool(metrics) or has_others(result), after=after)
    return code


def _next_lines(result: Result, path: Path, width: int) -> list[str]:
    """Three commands that show more of the run, and how to find the others. What each shows stands next to it, or below
    it where that would be wider.
    """
    from latlab.report.answer import next_commands

    newest = _newest(RUNS)
    named = path.name if path.parent.resolve() == RUNS.resolve() else str(path)
    run = "" if newest and newest.resolve() == path.resolve() else f"{quote(named)} "
    commands = [(f"latlab show {run}{name}", what) for name, what in next_commands(result)]
    commands[-1] = commands[-1][0], f"{commands[-1][1]}; more: latlab show -h"
    room = max(len(command) for command, _ in commands)
    lines = [f"{command:{room}}   {what}" for command, what in commands]
    if _NEXT + max(map(len, lines)) > width:
        lines = [line for command, what in commands for line in (command, f"  {what}")]
    return [f"{'' if number else 'Next:':{_NEXT}}{line}" for number, line in enumerate(lines)]


def _there(asked: list[str] | None, result: Result) -> list[str] | None:
    """Those of these metrics that the run has; None: none was asked for, or it has none of them, which is said."""

    there = result.metric_names()
    found = [name for name in asked or () if name in there]
    if len(found) < len(asked or ()):
        missing = ", ".join(name for name in asked or () if name not in there)
        print_error(f"--metric: this run has no {missing}; it has {', '.join(there) or 'no figures'}")
    return found or None


def _check_metrics(names: list[str] | None) -> None:
    """Check the names. UsageError: one is no metric's."""
    from latlab.model.errors import UsageError
    from latlab.model.metrics import METRICS_BY_NAME

    for name in names or ():
        if name not in METRICS_BY_NAME:
            known = ", ".join(METRICS_BY_NAME)
            raise UsageError(f"there is no metric {name!r}", where="--metric", remedy=f"one of {known}")


def _check_format(name: str) -> None:
    """Check the name. UsageError: it is not the name of a format."""
    if name == TERMINAL:
        return
    from latlab.model.errors import UsageError
    from latlab.report.formats import FORMATS

    if name not in FORMATS:
        known = ", ".join((TERMINAL, *FORMATS))
        raise UsageError(f"there is no format {name!r}", where="--format", remedy=f"one of {known}")
