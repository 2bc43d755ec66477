"""Every format of text has the whole result, and `latlab report` knows each by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from latlab.model.errors import UsageError
from latlab.report.formats import FORMATS
from latlab.report.text import microseconds
from latlab.result.store import typed


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_has_the_verdict_every_reason_and_every_figure(name: str, result: dict[str, Any]) -> None:
    text = FORMATS[name].result(typed(result), ["latency"])
    plain = text.replace("\\", "")
    assert result["scenario"] in plain.splitlines()[0] and result["verdict"] in plain.splitlines()[0]
    assert [one["finding"] for one in result["reasons"] if one["finding"] not in plain] == []
    figures = [stream["metrics"]["latency"] for cell in result["cells"] for stream in cell["streams"].values()]
    assert figures and [one["max"] for one in figures if microseconds(one["max"]) not in plain] == []


def test_a_format_that_there_is_not_is_a_mistake_of_the_command_line(tmp_path: Path) -> None:
    from latlab.cli.run import report

    with pytest.raises(UsageError, match="there is no format 'odt'") as raised:
        report(printed="odt", runs=tmp_path)
    assert "md" in raised.value.remedy
