"""What the system lacks is named, with its package, where nothing installs it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
NEEDED = ("make", "cc", "clang", "cmake", "python3", "rustc", "cargo", "ip", "sysctl", "chrt", "ethtool", "iperf3")
PLAIN = ("bash", "env", "cut", "sort", "head", "grep", "tr", "sed", "id", "cat")


def require(place: Path, *absent: str) -> subprocess.CompletedProcess[str]:
    """`tools/require build` on a machine without apt-get and without the absent commands."""
    for name in (*PLAIN, *NEEDED):
        # What `python3` names may itself be a script that looks for others: the interpreter is taken.
        found = f"{sys.base_prefix}/bin/python3" if name == "python3" else shutil.which(name)
        if found and name not in absent:
            # A link would take compiler drivers and version managers away from what lies beside them.
            (place / name).write_text(f'#!/bin/sh\nexec "{found}" "$@"\n')
            (place / name).chmod(0o755)
    return subprocess.run(
        (shutil.which("bash") or "bash", str(ROOT / "tools/require"), "build"),
        env={"PATH": str(place), "HOME": str(Path.home())},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_machine_that_has_everything_is_told_nothing(tmp_path: Path) -> None:
    done = require(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_each_missing_piece_is_named_with_its_package_and_nothing_is_installed(tmp_path: Path) -> None:
    done = require(tmp_path, "sysctl", "ethtool")
    assert done.returncode == 3
    assert "sysctl (Debian package: procps)" in done.stderr
    assert "ethtool (Debian package: ethtool)" in done.stderr
    assert "docs/howto/install.md" in done.stderr
    assert done.stderr.count("Debian package") == 2
