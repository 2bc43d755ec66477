"""Which CPU of this machine a board in virtual time has."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from latlab.testbed.machines import board_qemu as module
from latlab.testbed.machines.board_qemu import emulator_cpu


def test_each_board_has_a_cpu_of_its_own_as_long_as_there_are_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STATE", str(tmp_path / "state"))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2, 5, 7})
    with ExitStack() as kept:
        assert [kept.enter_context(emulator_cpu()) for _ in range(5)] == [7, 5, 2, 7, 7]
    with emulator_cpu() as cpu:
        assert cpu == 7
