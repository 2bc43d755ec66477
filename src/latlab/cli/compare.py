"""The verb that holds runs, or cells of runs, against each other."""

from __future__ import annotations

from typing import Annotated

import typer

from latlab.cli.options import RUNS, Json, JUnit, Runs, Strict
from latlab.cli.output import open_console, print_json, write
from latlab.errors import UsageError, making_sense_of

MetricsCompared = Annotated[
    list[str] | None,
    typer.Option("--metric", metavar="NAME", help="Compare this metric (several times); latency if not given."),
]


def compare(
    sides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="A B…", help="RUN or RUN:CELL, each held against the first; with --baseline the new one."
        ),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option("--baseline", metavar="RUN", help="Exit with 1 if the new run is worse than this one.")
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="KEY", help="Compare the cells of one run by this key of its matrix.")
    ] = None,
    threshold: Annotated[
        list[str] | None,
        typer.Option(
            "--threshold",
            metavar="PATH=LIMIT",
            help="How much worse it may be: control.latency.max=5us, =10%; what the repetitions cannot tell apart by "
            "so little is said to be too coarse, and skipped in JUnit XML.",
        ),
    ] = None,
    need_power: Annotated[
        bool,
        typer.Option("--need-power", help="Exit with 4 if a comparison is too coarse for its threshold; JUnit: fails."),
    ] = False,
    metric: MetricsCompared = None,
    statistic: Annotated[
        list[str] | None,
        typer.Option("--statistic", metavar="NAME", help="Compare this one (several times); p50 p99.9 max stddev."),
    ] = None,
    stream: Annotated[
        list[str] | None, typer.Option("--stream", metavar="NAME", help="Compare this stream only (several times).")
    ] = None,
    as_json: Json = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown, for a pull request or a page.")] = False,
    junit: JUnit = None,
    runs: Runs = RUNS,
    strict: Strict = False,
) -> None:
    """Tell whether runs, or cells of runs, differ.

    By their repetitions: how far apart they are, with a 95 % interval, or that no difference is shown.
    """
    from latlab.report.comparison import document as comparing
    from latlab.report.comparison.markdown import comparison_markdown
    from latlab.report.comparison.terminal import print_comparison
    from latlab.report.comparison.wanted import wanted
    from latlab.report.junit import comparison_junit

    if need_power and not threshold:
        raise UsageError("nothing needs power", where="--need-power", remedy="give a --threshold")
    asked = wanted(metric or (), statistic or (), stream or (), threshold or ())
    with making_sense_of(sides[0] if sides else runs):
        document = comparing.compare(sides or (), runs, asked, baseline=baseline, by=by)
    code = comparing.exit_code(document, strict=strict, need_power=need_power)
    if junit is not None:
        junit.write_text(comparison_junit(document, need_power=need_power), encoding="utf-8")
    if as_json:
        print_json(document | {"exit_status": code})
    elif markdown:
        write(comparison_markdown(document))
    else:
        print_comparison(document, open_console())
    raise typer.Exit(code)
