"""Parts of a result from no more than what a test is about, and configurations made of repetitions' figures."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

from latlab.analysis.comparison.configuration import Configuration
from latlab.model.part import DocumentPart
from latlab.result.types import Cell

P = TypeVar("P", bound=DocumentPart)


def partial(kind: type[P], document: Mapping[str, Any]) -> P:
    """The part with these keys; nothing is validated, and what is not there is its default, else None."""
    fields = {}
    for name, field in kind.model_fields.items():
        key = field.alias or name
        if key in document:
            fields[name] = _made(field.annotation, document[key])
        else:
            fields[name] = None if field.is_required() else field.get_default(call_default_factory=True)
    given = {name for name, field in kind.model_fields.items() if (field.alias or name) in document}
    return kind.model_construct(_fields_set=given, **fields)


def _made(kind: Any, value: Any) -> Any:
    if value is None:
        return None
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        kinds = [one for one in get_args(kind) if one is not NoneType]
        return _made(kinds[0], value)
    if origin is list:
        return [_made(get_args(kind)[0], one) for one in value]
    if origin is dict:
        keys, values = get_args(kind)
        return {keys(key): _made(values, one) for key, one in value.items()}
    is_part = isinstance(kind, type) and issubclass(kind, DocumentPart) and isinstance(value, Mapping)
    return partial(kind, value) if is_part else value


def configuration(
    value: str, repetitions: Mapping[int, Mapping[str, Any]], *, run: str = "r", label: str = "measured", **figures: Any
) -> Configuration:
    """A cell with `bridge: value`; {repeat: its latency's statistics, ns}. figures: in all repetitions alike."""
    shared = {"from": "launch", "to": "rx_soft", "uncertainty_ns": 0, **figures}
    cells = {
        repeat: repetition({"control": {"metrics": {"latency": {**shared, **found}}}}, label=label)
        for repeat, found in repetitions.items()
    }
    return Configuration(run, f"bridge={value}", {"bridge": value}, cells, {})


def repetition(streams: Mapping[str, Any], *, label: str = "measured") -> Cell:
    """A repetition of a cell with these streams."""
    return partial(Cell, {"label": label, "verdict": "trusted", "streams": streams})


def medians(value: str, *p50: float, **options: Any) -> Configuration:
    """A configuration of which each repetition has only this median, ns."""
    return configuration(value, {repeat: {"p50": one} for repeat, one in enumerate(p50, start=1)}, **options)
