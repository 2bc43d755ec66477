"""The scenarios that come with latlab: right as they are, and planned in commands that a shell takes."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from latlab.cli import app
from latlab.scenario import cells, load_scenario

SCENARIOS = Path(__file__).parents[2] / "scenarios"
READY_MADE = sorted(path.name for path in SCENARIOS.glob("*.yaml"))


def test_the_ready_made_scenarios_are_there() -> None:
    experiments = {"dds-payload.yaml", "irq-latency.yaml", "netperf-rr.yaml", "two-way.yaml"}
    experiments |= {"txtime.yaml", "txtime-late.yaml", "txtime-batch.yaml"}
    assert {"bridges.yaml", "demo.yaml", "first.yaml"} | experiments <= set(READY_MADE)


@pytest.mark.parametrize("name", READY_MADE)
def test_a_ready_made_scenario_is_right_and_says_what_it_is_for(name: str) -> None:
    loaded = load_scenario(SCENARIOS / name)
    assert loaded.scenario.description
    assert len(cells(loaded)) > 1


def test_every_command_of_the_bridges_plan_is_one_a_shell_can_parse() -> None:
    plan = planned("bridges.yaml")
    assert parse_error(plan) == ""
    commands = dict.fromkeys(one for script in scripts_of_hosts(plan) for one in commands_of(script))
    assert any("qemu-system" in one for one in commands)
    assert [(one, error) for one in commands if (error := parse_error(one))] == []


def test_behind_user_nat_the_stream_of_the_tsn_experiment_goes_through_a_vlan_interface() -> None:
    plan = planned("tsn-bridges.yaml")
    added = ("link add link eth0 name eth0.5", "link add link eth1 name eth1.5")
    made = [line for line in plan.splitlines() if any(one in line for one in added)]
    assert len(made) == 2 * 3
    assert all("type vlan id 5 egress-qos-map 7:7 " in line for line in made)
    assert plan.count("hostfwd=udp:10.80.0.2:5557-10.0.2.15:5557") == 3


def planned(name: str) -> str:
    """What `latlab plan` prints of a ready-made scenario."""
    done = CliRunner().invoke(app, ["plan", str(SCENARIOS / name)])
    assert done.exit_code == 0, done.output
    return done.stdout


def scripts_of_hosts(plan: str) -> list[str]:
    """What a plan has to paste on each host, as often as it comes to one."""
    return plan.split("\n## on ")[1:]


def commands_of(script: str) -> list[str]:
    """The script's commands, each with all its continuation lines."""
    commands, begun = [], ""
    for line in script.split("\n")[1:]:
        begun += line
        if not line.endswith("\\") and is_closed(begun):
            commands.append(begun)
            begun = ""
        else:
            begun += "\n"
    return [*commands, *filter(None, (begun,))]


def is_closed(command: str) -> bool:
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return False
    return True


def parse_error(script: str) -> str:
    """What bash says of a script that it does not run; empty where it can parse all of it."""
    return subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False).stderr


@pytest.mark.parametrize("name", READY_MADE)
def test_the_metric_that_the_author_published_is_the_headline(name: str) -> None:
    scenario = load_scenario(SCENARIOS / name).scenario
    # Of DDS the author has curves; what is published there is another one's single row.
    if scenario.published and not name.startswith("dds"):
        assert scenario.headline in {one.metric for one in scenario.published}


@pytest.mark.parametrize("name", READY_MADE)
def test_a_published_row_that_names_cells_and_a_stream_names_ones_that_are_measured(name: str) -> None:
    loaded = load_scenario(SCENARIOS / name)
    measured = cells(loaded)
    for number, row in enumerate(loaded.scenario.published):
        named = [cell for cell in measured if number in cell.published]
        assert named or not row.when, row
        assert row.stream is None or all(row.stream in cell.scenario.flows for cell in named), row
