"""The formats that lab and agent share, as the agent declares them."""

from __future__ import annotations

import json
import subprocess
from dataclasses import asdict
from typing import Any

import pytest

from latlab.model.limits import LIMITS
from latlab.recordings.arrow import TABLES_FILE
from latlab.testbed.agent_binary import find_agent


@pytest.fixture(scope="module")
def declared() -> dict[str, Any]:
    """What `latlab-agent schema` prints."""
    ended = subprocess.run([find_agent(), "schema"], check=True, capture_output=True, timeout=600)
    whole: dict[str, Any] = json.loads(ended.stdout)
    return whole


def test_the_columns_that_are_read_are_those_that_are_recorded(declared: dict[str, Any]) -> None:
    assert json.loads(TABLES_FILE.read_text(encoding="utf-8")) == declared["recordings"]


def test_the_limits_that_scenarios_are_held_to_are_the_agents(declared: dict[str, Any]) -> None:
    assert asdict(LIMITS) == declared["limits"]


def test_a_column_may_be_empty_only_where_a_packet_may_lack_it(declared: dict[str, Any]) -> None:
    nullable = {
        f"{table}.{column['name']}"
        for table, columns in declared["recordings"].items()
        for column in columns
        if column["nullable"]
    }
    assert {"received.rx_hard_phc_ns", "received.rx_soft_real_ns", "timer.irq_tai_ns"} <= nullable
    assert not {"sent.launch_tai_ns", "sent.submit_tai_ns", "received.rx_user_tai_ns", "stamps.stamp_ns"} & nullable


def test_every_verb_that_reads_a_spec_declares_it_and_takes_no_other_keys(declared: dict[str, Any]) -> None:
    verbs: tuple[str, ...] = ("bridge", "busy", "clock", "dds", "drops", "flood", "listen")
    verbs += ("ping", "pong", "ptp", "talk", "timer", "trace", "watch")
    assert tuple(declared["specs"]) == verbs
    for verb, schema in declared["specs"].items():
        shapes = schema.get("oneOf", [schema])
        for shape in shapes:
            assert shape.get("additionalProperties", schema.get("additionalProperties")) is False, verb
            assert shape["required"], verb


def test_every_line_that_the_agent_tells_names_its_event(declared: dict[str, Any]) -> None:
    shapes = declared["event"]["oneOf"]
    names = {shape["properties"]["event"]["const"] for shape in shapes}
    assert {"ready", "progress", "done", "error"} <= names
    assert all("event" in shape["required"] for shape in shapes)
