"""Windows that are requested after the run: how they are written, and which there cannot be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from latlab.evaluation.run import make_result
from latlab.evaluation.windows import chosen_later
from latlab.model.errors import UsageError
from latlab.recordings.run_folder import RunFolder

S = 10**9


@pytest.mark.parametrize(
    ("text", "span", "why"),
    [
        ("10s..60s", (10 * S, 60 * S), ""),
        ("0..500ms", (0, S // 2), ""),
        (" 1s..2s  before the fan came on ", (S, 2 * S), "before the fan came on"),
    ],
)
def test_a_window_is_two_durations_and_perhaps_a_reason(text: str, span: tuple[int, int], why: str) -> None:
    (found,) = chosen_later([text])
    assert ((found.from_ns, found.to_ns), found.why, found.after_the_fact) == (span, why, True)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["10s"], r"--window: '10s' is not a window \(give FROM\.\.TO after the start of the streams, as 10s\.\.60s"),
        (["10..20"], r"--window: '10' is not a duration"),
        (["10s..9s"], r"--window: 10s\.\.9s ends before it begins"),
        (["1s..1s"], r"--window: 1s\.\.1s ends before it begins"),
        (["1s..5s", "2s..3s"], r"--window: 2s\.\.3s overlaps 1s\.\.5s \(give windows that do not overlap\)"),
    ],
)
def test_what_is_no_window_is_reported(texts: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        chosen_later(texts)


def test_a_run_without_packets_has_no_windows(new_run: Callable[..., Path]) -> None:
    folder = RunFolder(new_run())
    for cell in folder.cells():
        cell.write_cell(cell.cell().model_copy(update={"start_tai_ns": 0}))
    with pytest.raises(UsageError, match="no cell has packets"):
        make_result(folder, chosen_later(["1s..2s"]))
