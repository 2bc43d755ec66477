"""What a ptp4l said of itself over time: the recording of `latlab-agent ptp`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import polars as pl

from latlab.data.recordings import read_recording

PORT_STATES: Final = {
    1: "INITIALIZING",
    2: "FAULTY",
    3: "DISABLED",
    4: "LISTENING",
    5: "PRE_MASTER",
    6: "MASTER",
    7: "PASSIVE",
    8: "UNCALIBRATED",
    9: "SLAVE",
}
"""IEEE 1588's names of the numbers in `state` (IEEE 1588-2019, table 20); 0 is no answer."""


def read_ptp_series(path: Path, *, run_id: str | None = None) -> pl.DataFrame:
    """The `ptp` table of a `*.ptp.arrow` recording, a row a question, in the order they were asked.

    tai_ns, monotonic_ns: i64 ns, when the answer was in. answered: bool. state: u8, a key of PORT_STATES, 0 without an
    answer. offset_ns, path_delay_ns: i64 ns; grandmaster: u64; steps_removed: u16; frequency_ppt: i64, parts per 10^12:
    null where unknown. A recording that was cut off gives the rows up to its last whole batch.

    run_id: the run it must be of (None: any). LabError: there is no such file, or it is no such recording.
    """
    return read_recording(path, "ptp", run_id=run_id).table


def format_clock_identity(identity: int) -> str:
    """A clockIdentity as linuxptp writes it, as in `a1b2c3.fffe.d4e5f6`."""
    return f"{identity >> 40:06x}.{identity >> 24 & 0xFFFF:04x}.{identity & 0xFFFFFF:06x}"
