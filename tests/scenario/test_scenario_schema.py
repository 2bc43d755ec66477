"""The shipped JSON Schema says what the models say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from latlab.scenario import SCHEMA_FILE, parse_duration, scenario_schema, schema_text


def test_the_shipped_schema_is_the_models() -> None:
    assert SCHEMA_FILE.read_text(encoding="utf-8") == schema_text(), "make it anew: make reference"


def test_defaults_are_written_as_a_scenario_writes_them() -> None:
    schema = scenario_schema()
    assert schema["properties"]["settle"]["default"] == "200ms"
    assert schema["$defs"]["Flood"]["properties"]["rate"]["default"] == "max"
    assert schema["$defs"]["Stream"]["properties"]["launch_time"]["default"] is False


def test_a_duration_is_text_of_the_pattern_that_loading_takes() -> None:
    text, zero = scenario_schema()["properties"]["duration"]["anyOf"]
    assert zero == {"const": 0}
    for example in ("1006us", "1.5s", "3min"):
        assert re.search(text["pattern"], example)
        parse_duration(example)
    assert not re.search(text["pattern"], "900")


def test_every_property_is_described_and_no_model_takes_unknown_keys() -> None:
    for name, model in _models(scenario_schema()):
        assert model["additionalProperties"] is False, name
        for key, field in model["properties"].items():
            assert "description" in field or key in ("kind", "probe"), f"{name}.{key}"


def _models(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "Scenario", schema
    yield from schema["$defs"].items()
