"""Benches say what they do if nothing is asked of them, before they ask for anything themselves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCHES = Path(__file__).parents[2] / "benches"


@pytest.mark.slow
def test_how_soon_latlab_answers_is_held_against_another_checkout() -> None:
    argv = [sys.executable, str(BENCHES / "start_up.py"), "--than", str(BENCHES.parent), "--rounds", "1"]
    shown = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=600).stdout
    lines = [line.split() for line in shown.splitlines()]
    assert [line[0] for line in lines] == ["--help"] * 3 + ["validate"] * 3
    assert all("peak" in line for line in lines[:2] + lines[3:5])
    assert all("takes" in line for line in lines[2::3])


@pytest.mark.long
@pytest.mark.slow
def test_gate_effects_are_measured_where_the_figures_are_the_kernels_own() -> None:
    argv = [sys.executable, str(BENCHES / "gate_effects.py"), "--help"]
    shown = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=600).stdout
    assert "[--time virtual]" in shown
    assert "--time {virtual,real} the board's: virtual" in " ".join(shown.split())
