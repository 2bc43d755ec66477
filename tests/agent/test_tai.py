"""`latlab-agent tai` prints the clocks and when cycles begin; it changes an offset only where permitted."""

from __future__ import annotations

import json
import shutil
import subprocess
import time

import pytest

from latlab.testbed.agent_binary import find_agent

NS_PER_S = 10**9
CYCLE_NS = 503_000


def tai(*words: str, by: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """What came of `latlab-agent tai WORDS`, run by another command if one is given."""
    return subprocess.run([*by, str(find_agent()), "tai", *words], capture_output=True, text=True, check=False)


def now_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_TAI)


def test_the_clocks_are_reported_with_the_kernels_offset() -> None:
    before = now_ns()
    told = json.loads(tai().stdout)
    after = now_ns()
    assert set(told) == {"tai_ns", "real_ns", "tai_offset_s"}
    assert before <= told["tai_ns"] <= after
    assert before <= told["real_ns"] + told["tai_offset_s"] * NS_PER_S <= after


def test_the_next_cycle_begins_soon_and_in_step() -> None:
    before = now_ns()
    begins = int(tai("--next", str(CYCLE_NS)).stdout)
    assert before <= begins < now_ns() + CYCLE_NS
    assert begins % CYCLE_NS == 0


@pytest.mark.parametrize("shift", [7, -7, 10 * CYCLE_NS + 7])
def test_a_cycle_begins_not_before_it_is_asked_for_and_shifted(shift: int) -> None:
    before = now_ns()
    begins = int(tai("--next", str(CYCLE_NS), "--shift", str(shift), "--after", str(NS_PER_S)).stdout)
    assert before + NS_PER_S <= begins < now_ns() + NS_PER_S + CYCLE_NS
    assert (begins - shift) % CYCLE_NS == 0


@pytest.mark.parametrize(
    "words",
    [
        ("--set", "-1"),
        ("--set", "100001"),
        ("--set", "many"),
        ("--next", "0"),
        ("--next", "-503000"),
        ("--shift", "1"),
        ("--after", "1"),
        ("--set", "37", "--next", "503000"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_is_refused_and_nothing_is_printed(words: tuple[str, ...]) -> None:
    found = tai(*words)
    assert (found.returncode, found.stdout) == (2, "")
    assert words[0] in found.stderr


def test_an_instant_that_no_number_holds_is_an_error() -> None:
    found = tai("--next", "1", "--after", str(2**63 - 1))
    assert (found.returncode, found.stdout) == (1, "")
    assert "64 bits" in found.stderr


def test_without_the_privilege_the_offset_stays_and_what_it_takes_is_reported() -> None:
    assert shutil.which("setpriv"), "install util-linux: setpriv takes the privilege away"
    before = json.loads(tai().stdout)["tai_offset_s"]
    found = tai("--set", str(before), by=("setpriv", "--bounding-set=-sys_time", "--inh-caps=-sys_time"))
    assert (found.returncode, found.stdout) == (1, "")
    assert "CAP_SYS_TIME" in found.stderr
    assert json.loads(tai().stdout)["tai_offset_s"] == before
