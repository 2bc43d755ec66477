"""Where results are kept: result.json read as its types, and the schema of what is in it."""

from __future__ import annotations

import json

from pydantic import ValidationError

from latlab.model.errors import LabError
from latlab.model.part import Document
from latlab.recordings.run_folder import RunFolder
from latlab.result.types import Result


def load_result(folder: RunFolder) -> Result:
    """The result of a run. LabError: it has none, or another version of latlab wrote it in another shape."""
    return typed(
        folder.result(), str(folder.result_path), f"latlab report {folder.path} writes it again from the recordings"
    )


def typed(document: Document, where: str = "", remedy: str = "") -> Result:
    """The result document as its types. LabError: a key that no type declares, or a wrong value.

    where, remedy: of that error.
    """
    try:
        return Result.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        what = f"not a result as this version of latlab has it: {'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise LabError(what, where=where, remedy=remedy) from error


def result_schema() -> Document:
    """The JSON Schema (draft 2020-12) of result.json."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Result.model_json_schema(by_alias=True)}


def schema_text() -> str:
    """The schema as docs/reference/result.schema.json has it."""
    return json.dumps(result_schema(), indent=1, ensure_ascii=False) + "\n"
