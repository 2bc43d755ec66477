"""The result of a run, typed: what result.json holds, with attributes instead of keys."""

from latlab.result.store import load_result, result_schema
from latlab.result.types import Cell, Metric, Result, Stream

__all__ = ["Cell", "Metric", "Result", "Stream", "load_result", "result_schema"]
