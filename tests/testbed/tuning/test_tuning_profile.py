"""tuned's profiles: every file they set is read back, and has its former value afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from latlab.testbed.site import Site
from latlab.testbed.tuning import cpus
from latlab.testbed.tuning.cpus import chosen, profile_steps
from support.testbed.tuning import applied, tuned


def test_files_are_set_and_put_back_and_what_is_not_there_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, several, gone = (tmp_path / name for name in ("plain", "several", "gone"))
    plain.write_text("950000\n")
    several.write_text("always [madvise] never\n")
    wanted = {str(plain): "-1", str(several): "never", str(gone): "1"}
    monkeypatch.setattr(cpus, "PROFILES", {"realtime-virtual-host": wanted})
    seen: list[str] = []
    steps = profile_steps("ecu", tuned(profile="realtime-virtual-host"), Site("0a9f"))
    outcome = applied(steps, lambda: seen.extend(path.read_text().strip() for path in (plain, several)))
    assert outcome.findings == {}
    assert seen == ["-1", "never"]
    assert (plain.read_text().strip(), several.read_text().strip()) == ("950000", "madvise")
    assert not gone.exists()


def test_a_host_without_a_profile_is_left_alone() -> None:
    assert not list(profile_steps("ecu", tuned(), Site("0a9f")))


@pytest.mark.parametrize(("text", "value"), [("10\n", "10"), ("always madvise [never]\n", "never"), ("", "")])
def test_of_a_list_the_chosen_value_counts(text: str, value: str) -> None:
    assert chosen(text) == value
