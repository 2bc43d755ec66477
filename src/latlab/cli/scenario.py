"""Verbs about a scenario of which nothing is run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from latlab.cli.options import FILES, Json, ScenarioName
from latlab.cli.output import open_console, print_json, write


def validate(scenario: ScenarioName = None, as_json: Json = False) -> None:
    """Check a scenario; nothing is run.

    It reports every mistake at once, with its line, and whether this machine can run the scenario.

    Examples:
        # Your own scenario
        latlab validate lab.yaml
        # What this machine is missing for a ready-made one
        latlab validate tsn-bridges
    """
    from latlab.cli.ready_made import scenario_path
    from latlab.scenario import cells, load_scenario

    loaded = load_scenario(scenario_path(scenario, "validate", as_json=as_json))
    # Only now: what is imported for the tables restarts a read that Ctrl-C is to end (polars, by SA_RESTART).
    from latlab.analysis.words import counted
    from latlab.console import runs_of_cells
    from latlab.foreseen import as_line, facts_of_this_machine, foreseen
    from latlab.report.columns import print_sentence
    from latlab.result.places import matrix_titles
    from latlab.testbed.machine import read_machine
    from latlab.testbed.preflight import preflight_cells, warnings
    from latlab.testbed.unavailable import summed_up, unavailable_here

    found = cells(loaded)
    lacking = preflight_cells(loaded)
    not_here = {cell.slug: summed_up(reasons) for cell in found if (reasons := unavailable_here(cell.scenario))}
    warned = warnings(loaded)
    doubts = foreseen(loaded, read_machine(), facts_of_this_machine())
    if as_json:
        machine = [problem.as_dict() for problem in lacking]
        document: dict[str, object] = {"scenario": loaded.scenario.name, "cells": [cell.slug for cell in found]}
        document |= {"unavailable": {slug: reason.as_dict() for slug, reason in not_here.items()}}
        document |= {"foreseen": [reason.document() for reason in doubts]}
        document |= {"warnings": [warning.as_dict() for warning in warned]}
        print_json(document | {"problems": [], "machine": machine})
        return
    console = open_console()
    for problem in lacking:
        print_sentence(f"it cannot run on this machine: {problem}", console)
    measured = {"stream": len(loaded.scenario.streams), "probe": len(loaded.scenario.probes)}
    how_many = ", ".join(counted(count, what) for what, count in measured.items() if count)
    print_sentence(
        f"{loaded.path}: {'valid, but it cannot run on this machine' if lacking else 'valid'}. "
        f"{runs_of_cells(len(found) * loaded.scenario.repeat, len(found))}, {how_many}:",
        console,
    )
    together: dict[str, list[str]] = {}
    for cell in found:
        reason = not_here.get(cell.slug)
        print_sentence(f"  {cell.slug}" + (": unavailable on this machine" if reason else ""), console)
        if reason:
            together.setdefault(str(reason), []).append(cell.slug)
    labels = {cell.slug: cell.label for cell in found}
    for why, slugs in together.items():
        print_sentence(f"unavailable on this machine: {matrix_titles(slugs, labels)}: {why}", console)
    for warning in warned:
        print_sentence(f"warning: {warning}", console)
    for doubt in doubts:
        print_sentence(f"always {doubt.severity} on this machine: {as_line(doubt)}", console)


def plan(scenario: ScenarioName = None, as_json: Json = False) -> None:
    """Print every command that a run would execute.

    The commands are listed host by host, ready to paste; nothing is run.

    Examples:
        # What the demo would change on this machine
        latlab plan demo | less
    """
    from latlab.cli.ready_made import scenario_path
    from latlab.run import matrix as measure
    from latlab.scenario import load_scenario

    text = measure.plan(load_scenario(scenario_path(scenario, "plan", as_json=as_json)))
    if as_json:
        print_json({"plan": text.splitlines()})
    else:
        write(text)


def gates(
    scenario: ScenarioName = None,
    as_json: Json = False,
    picture: Annotated[
        Path | None,
        typer.Option(
            "--picture",
            metavar="FILE",
            rich_help_panel=FILES,
            help="Draw the schedules to this .png, .svg or .pdf file.",
        ),
    ] = None,
) -> None:
    """Show gate schedules, and the latency bound of each stream.

    For each stream it prints when packets depart and how long they wait, and it warns where a schedule does not do
    what it seems to do. Nothing is run.

    Examples:
        # The schedule of a ready-made scenario
        latlab gates tsn-bridges
        # With a picture
        latlab gates lab.yaml --picture gates.svg
    """
    from latlab.cli.ready_made import scenario_path
    from latlab.evaluation.gates import promised_groups
    from latlab.gates_listing import print_gates
    from latlab.report.gates import as_document
    from latlab.scenario import load_scenario

    loaded = load_scenario(scenario_path(scenario, "gates", as_json=as_json))
    found = promised_groups(loaded.combinations)
    labels = {cell.slug: cell.label for cell in loaded.combinations}
    if picture is not None:
        from latlab.report.charts.gates import gates_chart

        gates_chart(loaded.scenario.name, found, labels).save(picture)
    if as_json:
        listed = [{"cells": cells, "ports": [as_document(port) for port in ports]} for cells, ports in found]
        print_json({"scenario": loaded.scenario.name, "schedules": listed})
    else:
        print_gates(found, labels, open_console())
        if picture is not None:
            open_console().print(f"Picture: {picture.resolve()}", highlight=False, markup=False, soft_wrap=True)
