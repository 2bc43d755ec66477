"""What the system does not have is named, with its package, where nothing installs it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
NEEDED = ("make", "cc", "clang", "cmake", "python3", "rustc", "cargo", "ip", "sysctl", "chrt", "ethtool", "iperf3")
PLAIN = ("bash", "env", "cut", "sort", "head", "grep", "tr", "sed", "id", "cat", "uname")


def require(place: Path, *absent: str, want: str = "build") -> subprocess.CompletedProcess[str]:
    """`tools/require` on a machine without apt-get and without the absent commands. want: what for."""
    for name in (*PLAIN, *NEEDED):
        # What `python3` names may itself be a script that looks for others: the interpreter is taken.
        found = f"{sys.base_prefix}/bin/python3" if name == "python3" else shutil.which(name)
        if found and name not in absent:
            # A link would take compiler drivers and version managers away from what lies next to them.
            (place / name).write_text(f'#!/bin/sh\nexec "{found}" "$@"\n')
            (place / name).chmod(0o755)
    return subprocess.run(
        (shutil.which("bash") or "bash", str(ROOT / "tools/require"), want),
        env={"PATH": str(place), "HOME": str(Path.home())},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_machine_that_has_everything_is_reported_nothing(tmp_path: Path) -> None:
    done = require(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_each_missing_piece_is_named_with_its_package_and_nothing_is_installed(tmp_path: Path) -> None:
    done = require(tmp_path, "sysctl", "ethtool")
    assert done.returncode == 3
    assert "sysctl (Debian package: procps)" in done.stderr
    assert "ethtool (Debian package: ethtool)" in done.stderr
    assert "docs/howto/install.md" in done.stderr
    assert done.stderr.count("Debian package") == 2


def test_agents_for_both_architectures_need_the_other_ones_compilers(tmp_path: Path) -> None:
    done = require(tmp_path, want="agents")
    assert done.returncode == 3
    assert re.search(r"a C compiler for \w+ \(Debian package: gcc-[\w-]+-linux-gnu\)", done.stderr)
    assert re.search(r"a C\+\+ compiler for \w+ \(Debian package: g\+\+-[\w-]+-linux-gnu\)", done.stderr)


def test_the_oldest_rust_is_the_same_everywhere_it_is_named() -> None:
    crates = [tomllib.loads((ROOT / path).read_text()) for path in ("agent/Cargo.toml", "agent/fuzz/Cargo.toml")]
    oldest = crates[0]["workspace"]["package"]["rust-version"]
    assert crates[1]["package"]["rust-version"] == oldest
    assert f"min_rust={oldest}\n" in (ROOT / "tools/require").read_text()
    assert f"cargo ≥ {oldest} |" in (ROOT / "docs/howto/install.md").read_text()


def test_the_agent_has_no_let_chains_which_the_oldest_rust_does_not_know() -> None:
    sources = [path for crate in ("agent", "sys", "wire") for path in (ROOT / "agent" / crate).rglob("*.rs")]
    assert sources
    chained = [str(path) for path in sources if re.search(r"&&\s+let\s", path.read_text())]
    assert chained == []
