"""The scenario's JSON Schema, for editors and other programs; shipped next to this file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from latlab.scenario.models import Scenario
from latlab.scenario.parts import Part

SCHEMA_FILE = Path(__file__).with_name("scenario.schema.json")


class _Schema(GenerateJsonSchema):
    """Without titles: they only repeat the keys."""

    def field_title_should_be_set(self, schema: object) -> bool:
        return False


def scenario_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a scenario. What must fit together, it cannot say."""
    schema = Scenario.model_json_schema(by_alias=True, schema_generator=_Schema)
    for name, part in _parts(Part).items():
        described = schema if part is Scenario else schema["$defs"].get(name)
        if described is not None:
            _write_defaults(described, part)
    return {"$schema": GenerateJsonSchema.schema_dialect, **schema, "title": "latlab scenario"}


def schema_text() -> str:
    """The schema as scenario.schema.json has it."""
    return json.dumps(scenario_schema(), indent=2, ensure_ascii=False) + "\n"


def _parts(base: type[Part]) -> dict[str, type[Part]]:
    found: dict[str, type[Part]] = {}
    for part in base.__subclasses__():
        found |= {part.__name__: part, **_parts(part)}
    return found


def _write_defaults(described: dict[str, Any], part: type[Part]) -> None:
    """Puts defaults as the file would write them, with units, instead of the model's own numbers."""
    written = part.model_construct().model_dump(mode="json", by_alias=True, warnings=False)
    for key, field in described["properties"].items():
        if "default" in field and key in written:
            field["default"] = written[key]
