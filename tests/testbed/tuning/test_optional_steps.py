"""What cannot be done is a finding where a step is optional; what has changed by the end is noticed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from latlab.hosts import LocalMachine
from latlab.hosts.base import Completed
from latlab.model.errors import LabError
from latlab.testbed.step import Before, Check, Step
from support.testbed.tuning import applied

SET = 'echo "$1" >"$0"'


def setting(path: Path, value: str) -> Step:
    """A step that writes the value into the file, and puts the former one back."""
    return Step(
        "ecu",
        f"set {path.name}",
        ("sh", "-c", SET, str(path), value),
        undo=("sh", "-c", SET, str(path), "{before}"),
        before=Before(("cat", str(path))),
        check=Check(("cat", str(path)), expected=value),
        optional=True,
        lasting=True,
    )


def test_a_command_that_fails_is_reported_and_the_run_goes_on(tmp_path: Path) -> None:
    done = tmp_path / "done"
    refused = Step("ecu", "set it", ("sh", "-c", "echo not here >&2; exit 3"), optional=True)
    outcome = applied([refused, Step("ecu", "next", ("touch", str(done)))])
    assert outcome.findings == {"set it": "ended with status 3: not here"}
    assert done.exists()


def test_the_same_failure_ends_the_run_where_a_step_is_not_optional() -> None:
    with pytest.raises(LabError, match="not here"):
        applied([Step("ecu", "set it", ("sh", "-c", "echo not here >&2; exit 3"))])


def test_another_value_than_was_set_is_reported_with_what_the_command_said() -> None:
    step = Step(
        "ecu",
        "set it",
        ("sh", "-c", "echo refused >&2"),
        check=Check(("echo", "1500"), expected="9000"),
        optional=True,
    )
    outcome = applied([step])
    assert outcome.findings == {"set it": "read back: 1500; output: refused"}
    assert outcome.first["set it"].actual == "1500"


def test_a_program_that_is_missing_is_reported_too() -> None:
    outcome = applied([Step("ecu", "set it", ("nosuchprogram",), check=Check(("true",), ""), optional=True)])
    assert outcome.findings == {"set it": "nosuchprogram is missing"}


def test_nothing_is_done_where_the_former_value_cannot_be_read(tmp_path: Path, journals: Path) -> None:
    journalled: list[str] = []
    outcome = applied(
        [setting(tmp_path / "absent", "1")],
        lambda: journalled.extend(path.read_text() for path in journals.iterdir()),
    )
    assert "No such file" in str(outcome.findings["set absent"])
    assert not (tmp_path / "absent").exists()
    assert len(journalled) == 1
    assert "set absent" not in journalled[0]


def test_what_is_there_already_is_left_alone(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_text("0")
    step = Step(
        "ecu",
        "make it",
        ("sh", "-c", SET, str(theirs), "1"),
        undo=("rm", str(theirs)),
        present=("test", "-e", str(theirs)),
        optional=True,
    )
    assert "exists already" in str(applied([step]).findings["make it"])
    assert theirs.read_text() == "0"


def test_a_half_done_step_is_undone(tmp_path: Path) -> None:
    path = tmp_path / "value"
    path.write_text("0\n")
    half = replace(setting(path, "1"), do=("sh", "-c", f"{SET}; exit 1", str(path), "1"))
    seen: list[str] = []
    outcome = applied([half], lambda: seen.append(path.read_text()))
    assert seen == ["1\n"]
    assert path.read_text() == "0\n"
    assert outcome.findings == {"set value": "ended with status 1: nothing on stderr"}


def test_a_value_that_others_change_meanwhile_is_found_at_the_end(tmp_path: Path) -> None:
    kept, changed = tmp_path / "kept", tmp_path / "changed"
    for path in (kept, changed):
        path.write_text("0\n")
    outcome = applied([setting(kept, "1"), setting(changed, "1")], lambda: changed.write_text("7\n"))
    assert outcome.findings == {}
    assert outcome.changed == {"set changed": "7"}
    again = outcome.again["set changed"]
    assert (again.host, again.command, again.expected) == ("ecu", f"cat {changed}", "1")
    assert outcome.again["set kept"].ok


def test_only_lasting_steps_that_were_as_wanted_are_read_again(tmp_path: Path) -> None:
    once, never = tmp_path / "once", tmp_path / "never"
    for path in (once, never):
        path.write_text("0\n")
    wrong = Check(("cat", str(never)), expected="2")
    outcome = applied([replace(setting(once, "1"), lasting=False), replace(setting(never, "1"), check=wrong)])
    assert outcome.again == {}


def test_what_a_host_has_is_read_again_by_one_command_and_alone_where_it_is_not_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, other, gone, last = (tmp_path / name for name in ("kept", "other", "gone", "last"))
    for path in (kept, other, gone, last):
        path.write_text("0")
    asked: list[Sequence[str]] = []
    run = LocalMachine.run

    async def listed(self: LocalMachine, argv: Sequence[str], **more: Any) -> Completed:
        asked.append(argv)
        return await run(self, argv, **more)

    def change() -> None:
        other.write_text("7\n")
        gone.unlink()
        monkeypatch.setattr(LocalMachine, "run", listed)

    outcome = applied([setting(path, "1") for path in (kept, other, gone, last)], change)
    assert (asked[0][:2], asked[1:3]) == (("sh", "-c"), [("cat", str(other)), ("cat", str(gone))])
    assert (outcome.changed["set other"], len(outcome.changed)) == ("7", 2)
    assert "No such file" in str(outcome.changed["set gone"])
    assert [outcome.again[f"set {path.name}"].command for path in (kept, last)] == [f"cat {kept}", f"cat {last}"]
