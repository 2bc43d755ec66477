"""What the result's types take next to what every run has."""

from __future__ import annotations

from typing import Any

import pytest

from latlab.model.errors import LabError
from latlab.report.unmeasured import unfinished
from latlab.result.store import typed


def test_a_failure_of_several_problems_is_read_with_each_of_them(result: dict[str, Any]) -> None:
    problems = [{"what": f"no {name}", "where": "ecu", "remedy": "look"} for name in ("iperf3", "qemu")]
    reason = {"what": "2 problems", "where": "", "remedy": "", "problems": problems}
    result["cells"][0] |= {"status": "failed", "reason": reason}
    assert [one.what for one in unfinished(typed(result))] == ["no iperf3", "no qemu"]
    assert typed(result).document() == result


def test_what_another_version_wrote_of_a_load_is_kept(result: dict[str, Any]) -> None:
    cell = next(cell for cell in result["cells"] if cell["loads"])
    cell["loads"][0]["colour"] = "red"
    assert typed(result).document() == result


def test_what_no_type_declares_elsewhere_is_an_error_that_names_it(result: dict[str, Any]) -> None:
    result["cells"][0]["colour"] = "red"
    with pytest.raises(LabError, match=r"cells\.0\.colour"):
        typed(result)
