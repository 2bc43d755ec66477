"""The formats that lab and agent share, as the agent declares them."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import pytest
from jsonschema import Draft202012Validator

from latlab.model.limits import LIMITS
from latlab.model.part import Recorded
from latlab.recordings.arrow import TABLES_FILE
from latlab.recordings.cell import Ready, Totals
from latlab.run.planned import planned_cell
from latlab.run.specs import with_live
from latlab.scenario import cells, load_scenario
from latlab.testbed.agent_binary import find_agent
from latlab.testbed.loads import LOADS
from latlab.testbed.makers import test_bed_steps as bed_steps
from latlab.testbed.plan import PlannedCell
from latlab.testbed.step import Service, Spec

SCENARIOS = Path(__file__).parents[2] / "scenarios"
PLACEHOLDERS: dict[str, int | str] = {
    "TID": 4711,
    "NETNS of ": 4026531840,
    "IFINDEX of ": 2,
    "TAI offset of ": 37,
    "MAC of ": "02:00:00:00:00:01",
}
"""How what only a run knows begins in a plan → a value of its kind."""
LIVE = {"dds", "listen", "ping", "pong", "talk", "timer"}
"""The verbs whose progress says more where a run is shown live."""


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


@pytest.mark.slow
def test_every_spec_that_is_planned_of_the_ready_made_scenarios_is_one_that_the_agent_takes(
    declared: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where KVM runs guests there are more agents; whether it does so here is of no account.
    monkeypatch.setattr("latlab.testbed.guests.qemu.acceleration_here", lambda machine: "kvm")
    wrong, verbs = [], set[str]()
    for path in sorted(SCENARIOS.glob("*.yaml")):
        for cell in cells(load_scenario(path)):
            for verb, spec in specs_of(planned_cell(cell)):
                if problem := problem_of(filled(spec), declared["specs"][verb]):
                    wrong.append(f"{path.name}: {verb}: {problem}")
                verbs.add(verb)
    assert wrong == []
    assert verbs >= {
        "bridge",
        "clock",
        "dds",
        "drops",
        "flood",
        "listen",
        "ping",
        "pong",
        "talk",
        "timer",
        "trace",
        "watch",
    }


def specs_of(cell: PlannedCell) -> Iterator[tuple[str, Spec]]:
    """The verb and the spec of each of our agents that a cell starts, also as they are where it is shown live."""
    started = [(one.argv, one.spec) for one in cell.agents]
    started += [(one.argv, one.spec) for load in cell.loads for one in LOADS[load.kind].processes(load)]
    steps = bed_steps(cell.scenario, cell.site)
    started += [(step.argv, step.spec) for step in steps if isinstance(step, Service)]
    for (*_, verb), spec in started:
        if spec is not None:
            yield verb, spec
            if verb in LIVE:
                yield verb, with_live(spec)


def problem_of(spec: Spec, schema: dict[str, Any]) -> str | None:
    """What is wrong with the spec by the schema, and where; None: nothing."""
    # As the agent reads it: with arrays for tuples.
    error = next(Draft202012Validator(schema).iter_errors(json.loads(json.dumps(spec))), None)
    while error and error.context:
        # Of several shapes the one that was meant has the fewest differences.
        shapes = Counter(one.relative_schema_path[0] for one in error.context)
        meant = min(shapes, key=shapes.__getitem__)
        error = next(one for one in error.context if one.relative_schema_path[0] == meant)
    return error and f"{error.json_path}: {error.message}"


def filled(planned: Any) -> Any:
    """The part of a planned spec with values for what only a run knows."""
    if isinstance(planned, Mapping):
        return {key: filled(value) for key, value in planned.items()}
    if isinstance(planned, list | tuple):
        return [filled(value) for value in planned]
    if isinstance(planned, str):
        return next((value for start, value in PLACEHOLDERS.items() if planned.startswith(start)), planned)
    return planned


SINK: Spec = {"role": "sink", "listen": "10.0.0.1:7", "flows": 1, "realtime": {}}


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({key: SINK[key] for key in SINK if key != "flows"}, "$: 'flows' is a required property"),
        ({**SINK, "colour": "red"}, "$: Additional properties are not allowed ('colour' was unexpected)"),
        ({**SINK, "flows": "one"}, "$.flows: 'one' is not of type 'integer'"),
    ],
    ids=["too little", "too much", "another type"],
)
def test_a_spec_that_the_agent_does_not_take_is_noticed(declared: dict[str, Any], spec: Spec, wrong: str) -> None:
    schema = declared["specs"]["flood"]
    assert problem_of(SINK, schema) is None
    assert problem_of(spec, schema) == wrong


@pytest.mark.parametrize(("name", "kept"), [("ready", Ready), ("done", Totals)])
def test_all_that_is_kept_of_an_event_is_something_that_agents_say(
    declared: dict[str, Any], name: str, kept: type[Recorded]
) -> None:
    whole = declared["event"]
    shapes = [shape for shape in whole["oneOf"] if shape["properties"]["event"]["const"] == name]
    assert list(never_said(kept, shapes, whole)) == []


def never_said(kept: type[Recorded], shapes: list[Any], whole: dict[str, Any]) -> Iterator[str]:
    """The fields of what is kept of an event, and of its parts, that no shape of the event has."""
    found = [shape for one in shapes for shape in objects(one, whole)]
    # What the totals of an agent inherit is what is kept of each of its streams, one of their parts.
    for field in kept.__annotations__:
        info = kept.model_fields[field]
        key = info.alias or field
        said = [shape["properties"][key] for shape in found if key in shape["properties"]]
        if not said:
            yield f"{kept.__name__}.{field}"
        for part in parts(info.annotation):
            yield from never_said(part, said, whole)


def objects(schema: Any, whole: dict[str, Any]) -> Iterator[Any]:
    """The objects that a value may be by a schema; of an array those in it."""
    while "$ref" in schema:
        schema = whole["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    if "properties" in schema:
        yield schema
    for inner in (*schema.get("oneOf", ()), *schema.get("anyOf", ()), *filter(None, [schema.get("items")])):
        yield from objects(inner, whole)


def parts(annotation: Any) -> Iterator[type[Recorded]]:
    """The types of parts of a document in a field's type."""
    if isinstance(annotation, type) and issubclass(annotation, Recorded):
        yield annotation
    for inner in get_args(annotation):
        yield from parts(inner)
