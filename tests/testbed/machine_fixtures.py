"""A machine to change and a separate journal directory, for every test that builds a test bed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_machine import private_network


@pytest.fixture(autouse=True)
def journals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The journal directory of this test."""
    directory = tmp_path / "journal"
    monkeypatch.setenv("LATLAB_STATE", str(directory))
    return directory


@pytest.fixture
def machine() -> Iterator[None]:
    """A private network: what the test leaves behind goes with it."""
    with private_network():
        yield
