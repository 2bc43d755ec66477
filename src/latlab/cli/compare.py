"""The verb that holds runs, or cells of runs, against each other."""

# Without annotations as text: the command line library would evaluate each of them at every start.
from typing import Annotated, Final

import typer

from latlab.cli.completion import complete_metric, complete_run
from latlab.cli.options import RUNS, Full, Json, JUnit, Runs, Strict
from latlab.cli.output import open_console, print_json, write
from latlab.model.errors import UsageError, making_sense_of, writing

FIGURES: Final = "What is compared"
BASELINE: Final = "Regression"


def compare(
    sides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN",
            help="A run, or a cell of it as RUN:CELL; each is compared with the first.",
            autocompletion=complete_run,
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            "--by", metavar="KEY", rich_help_panel=FIGURES, help="Compare the cells of one run by this matrix key."
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            metavar="NAME",
            rich_help_panel=FIGURES,
            help="Compare this metric (repeatable); those that the run's page compares if not given.",
            autocompletion=complete_metric,
        ),
    ] = None,
    statistic: Annotated[
        list[str] | None,
        typer.Option(
            "--statistic",
            metavar="NAME",
            rich_help_panel=FIGURES,
            help="Compare this statistic (repeatable); p50, p99.9, max and stddev if not given.",
        ),
    ] = None,
    stream: Annotated[
        list[str] | None,
        typer.Option(
            "--stream",
            metavar="NAME",
            rich_help_panel=FIGURES,
            help="Compare this stream (repeatable); all streams if not given.",
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline",
            metavar="RUN",
            rich_help_panel=BASELINE,
            help="Compare RUN with this run, and exit with 1 if it is worse.",
            autocompletion=complete_run,
        ),
    ] = None,
    threshold: Annotated[
        list[str] | None,
        typer.Option(
            "--threshold",
            metavar="PATH=LIMIT",
            rich_help_panel=BASELINE,
            help="How much worse it may be, such as control.latency.max=5us or control.latency.p99=10% (repeatable).",
        ),
    ] = None,
    need_power: Annotated[
        bool,
        typer.Option(
            "--need-power",
            rich_help_panel=BASELINE,
            help="Exit with 4 if there are too few repetitions to detect a change of --threshold.",
        ),
    ] = False,
    full: Full = False,
    strict: Strict = False,
    junit: JUnit = None,
    runs: Runs = RUNS,
    as_json: Json = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown instead of text.")] = False,
) -> None:
    """Compare runs, or cells of runs.

    It compares their repetitions, and prints each difference with its 95 % interval, or that no difference is shown.
    The metrics are those that the run's page compares: latency, latency_user, round trips, and of timers wakeup and
    interrupt, as far as all runs have them.

    Examples:
        # Two runs
        latlab compare 20261121-190211-demo-77c0 20261122-022817-demo-b141
        # The bridges of one run
        latlab compare 20261122-022817-demo-b141 --by guests.vm1.bridge
        # In CI: is the new run worse than the baseline by more than 10 %?
        latlab compare new --baseline old --threshold control.latency.p99=10%
    """
    from latlab.evaluation.comparison import document as comparing
    from latlab.evaluation.comparison.wanted import wanted
    from latlab.report.comparison.shown import comparison_markdown, print_comparison
    from latlab.report.junit import comparison_junit

    if need_power and not threshold:
        raise UsageError("nothing needs power", where="--need-power", remedy="give a --threshold")
    asked = wanted(metric or (), statistic or (), stream or (), threshold or ())
    with making_sense_of(sides[0] if sides else runs):
        found = comparing.compare(sides or (), runs, asked, baseline=baseline, by=by)
    code = comparing.exit_code(found, strict=strict, need_power=need_power)
    if junit is not None:
        with writing(junit):
            junit.write_text(comparison_junit(found, need_power=need_power), encoding="utf-8")
    if as_json:
        print_json(found.document() | {"exit_status": code})
    elif markdown:
        write(comparison_markdown(found))
    else:
        print_comparison(found, open_console(), full=full)
    raise typer.Exit(code)
