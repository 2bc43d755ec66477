"""What an agent recorded of a ptp4l."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from latlab.recordings.arrow import read_recording


def read_ptp_series(path: Path) -> pl.DataFrame:
    """The table, up to its last whole batch."""
    return read_recording(path, "ptp").table
