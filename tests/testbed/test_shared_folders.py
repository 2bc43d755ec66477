"""Where all may write, as in /tmp and /var/tmp, folders are new, for no other user, and nothing is taken over."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from latlab.scenario import parse
from latlab.testbed import makers  # by its module: pytest takes a function test_bed_steps for a test
from latlab.testbed.machine import assumed_machine
from latlab.testbed.machines import machine_steps, planned_sites
from latlab.testbed.site import Site
from latlab.testbed.step import Step

SHARED = ("/tmp", "/var/tmp")
HERE = str(Path(__file__).parents[2])
STREAM = {"talker": "sensor", "listener": "ecu", "period": "1ms", "size": "64B"}


def steps_of(**parts: Any) -> list[Step]:
    raw = {
        "name": "small",
        "hosts": {"sensor": {"kind": "ssh"}, "ecu": {"kind": "ssh"}},
        "links": [{"ends": ["sensor.eth0", "ecu.eth0"]}],
        "streams": {"control": STREAM},
        "duration": "1s",
        **parts,
    }
    parsed = parse(raw)
    assert parsed.scenario, parsed.findings
    site = Site("0a9f", machine=assumed_machine())
    site = replace(site, others=planned_sites(parsed.scenario, site))
    made = [*machine_steps(parsed.scenario, site), *makers.test_bed_steps(parsed.scenario, site)]
    return [step for step in made if isinstance(step, Step)]


def test_every_folder_there_is_made_without_taking_over_one_that_is_there() -> None:
    made = [step for step in steps_of() if step.do[:1] == ("mkdir",)]
    there = [step for step in made if step.do[-1].startswith(SHARED)]
    assert [step.host for step in there] == ["sensor", "ecu"]
    for step in there:
        assert step.do[:-1] == ("mkdir", "-m", "700")
        assert step.undo == ("rm", "-r", step.do[-1])
        assert step.present and "test -O" in " ".join(step.present)


def test_no_other_step_touches_a_path_there() -> None:
    # latlab itself may be in one of them.
    named = [
        shlex.join(step.do).replace(HERE, "").replace(sys.executable, "")
        for step in steps_of()
        if step.do[:1] != ("mkdir",)
    ]
    assert named and not [said for said in named if any(f"{folder}/" in said for folder in SHARED)]
