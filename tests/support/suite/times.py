"""Where the time of a test run goes: seconds of setup, test and teardown together, by file and by folder."""

from __future__ import annotations

from collections import Counter
from typing import Any

MOST = 40
"""Files that are listed."""


def write_times(terminal: Any) -> None:
    """Below the slowest tests, the files whose tests took longest, after the folders."""
    files: Counter[str] = Counter()
    for reports in terminal.stats.values():
        for report in reports:
            # Warnings and what was deselected have neither.
            if hasattr(report, "duration") and hasattr(report, "nodeid"):
                files[report.nodeid.partition("::")[0]] += report.duration
    folders: Counter[str] = Counter()
    for file, seconds in files.items():
        folders[file.rpartition("/")[0]] += seconds
    if len(files) < MOST:
        return
    terminal.write_sep("=", f"slowest folders and {MOST} files")
    for counted in (folders, files):
        for name, seconds in counted.most_common(MOST):
            if seconds >= 1:
                terminal.write_line(f"{seconds:7.1f}s {name}")
