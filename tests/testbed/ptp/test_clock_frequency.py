"""A clock that PTP turns gets its frequency back, whatever that was, and it is reported if it does not."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from latlab.testbed.guests.start import planned_site
from latlab.testbed.ptp import ptp_steps
from latlab.testbed.ptp.daemon import frequency
from latlab.testbed.step import Argv, Step, fill
from support.testbed.ptp import boards

NOBODYS = "nosuch0"
"""No interface: phc_ctl reports it once it has understood its words."""
Restore = Callable[[str, str], subprocess.CompletedProcess[str]]

FAKE = """\
#!/bin/sh
for last; do :; done
case "$last" in
freq)
    [ -e "$STATE.gone" ] && { echo "phc_ctl[1.2]: unknown clock" >&2; exit 255; }
    printf 'phc_ctl[1.2]: clock frequency offset is %sppb\\n' "$(cat "$STATE")" >&{stream} ;;
*) echo "$*" >> "$STATE.words"; [ -e "$STATE.stuck" ] || echo "$last" > "$STATE" ;;
esac
"""
"""phc_ctl with a clock in a file, which ends with 0 where that is stuck, too."""
STREAMS = {"3.1.1": "2", "4.2": "1"}
"""Version of linuxptp → where its phc_ctl prints a frequency: pr_err, and pr_notice since 4.2 (phc_ctl.c, do_freq)."""


def kept() -> list[Step]:
    steps = [step for step in ptp_steps(boards(), planned_site(boards())) if "frequency" in step.title]
    assert [step.title for step in steps] == [
        "record the frequency of the clock of board1.eth0",
        "record the frequency of the clock of board2.eth0",
        "record the frequency of board2's clock",
    ]
    return [step for step in steps if isinstance(step, Step)]


def undos() -> list[Argv]:
    found = [step.undo for step in kept() if step.undo]
    assert len(found) == 3
    return found


def test_the_frequency_that_was_is_read() -> None:
    assert frequency("phc_ctl[2521.132]: clock frequency offset is -12.500000ppb\n") == {"ppb": "-12.500000"}
    with pytest.raises(ValueError, match="no frequency"):
        frequency("phc_ctl: nothing")


@pytest.mark.parametrize("ppb", ["12.500000", "-12.500000"])
def test_phc_ctl_takes_the_former_frequency_for_one_even_if_it_is_below_zero(ppb: str) -> None:
    for undo in undos():
        argv = [NOBODYS if word in ("eth0", "CLOCK_REALTIME") else word for word in fill(undo, {"ppb": ppb})]
        assert NOBODYS in argv
        said = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert f"unknown clock {NOBODYS}" in said.stdout + said.stderr
        assert "invalid option" not in said.stdout + said.stderr
        assert said.returncode != 0


@pytest.fixture(params=STREAMS)
def clock(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """What stands for the clock's frequency, by either version of linuxptp."""
    program = tmp_path / "phc_ctl"
    program.write_text(FAKE.replace("{stream}", STREAMS[request.param]))
    program.chmod(0o755)
    return tmp_path / "clock"


def at_the_clock(clock: Path, argv: Argv) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": f"{clock.parent}:/usr/bin:/bin", "STATE": str(clock)}
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def restore(clock: Path) -> Restore:
    """Undoes what has set the clock to a frequency, to a former one."""

    def from_to(now: str, former: str) -> subprocess.CompletedProcess[str]:
        clock.write_text(now + "\n")
        return at_the_clock(clock, fill(undos()[0], {"ppb": former}))

    return from_to


def test_what_either_version_prints_is_read_before(clock: Path) -> None:
    clock.write_text("-12.500000\n")
    before = kept()[0].before
    assert before
    assert before.read(at_the_clock(clock, before.argv).stdout) == {"ppb": "-12.500000"}


def test_a_clock_that_cannot_be_read_is_reported_as_an_error(clock: Path) -> None:
    Path(f"{clock}.gone").touch()
    before = kept()[0].before
    assert before
    said = at_the_clock(clock, before.argv)
    assert said.returncode != 0
    assert said.stderr == "phc_ctl[1.2]: unknown clock\n"


@pytest.mark.parametrize("former", ["-12.500000", "-0.300000", "0.000000", "0.900000", "20000.000000"])
def test_it_is_set_and_read_again(clock: Path, restore: Restore, former: str) -> None:
    done = restore("-700.000000", former)
    assert (done.returncode, done.stderr) == (0, "")
    assert clock.read_text().strip() == former


def test_one_that_could_not_be_set_is_reported_with_what_it_is_and_was(clock: Path, restore: Restore) -> None:
    Path(f"{clock}.stuck").touch()
    done = restore("-700.000000", "-12.500000")
    assert done.returncode == 1
    assert done.stderr == "the frequency of eth0 is -700 ppb, and was -12.500000\n"
    assert restore("nonsense", "-12.500000").stderr == "the frequency of eth0 is not known ppb, and was -12.500000\n"
