"""What a release consists of, in dist/, once versions, dates and the changelog agree: docs/howto/release.md."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import package

ROOT = Path(__file__).parents[1]
AGENTS = ROOT / ".venv/bin"
SECTION = re.compile(r"^## \[([^\]]+)\](?: - (\S+))?\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def version_of(root: Path) -> str:
    """The version in pyproject.toml."""
    return str(_toml(root / "pyproject.toml")["project"]["version"])


def disagreements(root: Path) -> Iterator[str]:
    """What in the files of a repository keeps its version from being released."""
    version = version_of(root)
    crates = str(_toml(root / "agent/Cargo.toml")["workspace"]["package"]["version"])
    if crates != version:
        yield f"agent/Cargo.toml: version {crates}; pyproject.toml has {version}"
    locked = {one["name"]: one["version"] for one in _toml(root / "agent/Cargo.lock")["package"]}
    if locked["latlab-agent"] != crates:
        yield f"agent/Cargo.lock: latlab-agent {locked['latlab-agent']}; agent/Cargo.toml has {crates}: run make build"
    sections = SECTION.findall((root / "CHANGELOG.md").read_text(encoding="utf-8"))
    (unreleased, _, left), (latest, date, _) = sections[:2]
    if unreleased != "Unreleased" or left.strip():
        yield f"CHANGELOG.md: changes stand under {unreleased}; they belong under {version}"
    if latest != version or not DATE.fullmatch(date):
        found = f"its latest version is {latest}, of {date or 'no date'}"
        yield f"CHANGELOG.md: {found}; expected ## [{version}] - YYYY-MM-DD"


def unclean() -> Iterator[str]:
    """What in git keeps the version from being released."""
    if changed := _git("status", "--porcelain"):
        yield f"git: files differ from the last commit:\n{changed}"
    tag = f"v{version_of(ROOT)}"
    if _git("tag", "--list", tag) and _git("rev-list", "-1", tag) != _git("rev-parse", "HEAD"):
        yield f"git: the tag {tag} is another commit's"


def build(folder: Path) -> list[Path]:
    """Write the source archive, all packages and their SHA-256 to the folder, which has nothing else then."""
    shutil.rmtree(folder, ignore_errors=True)
    command = (sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", str(folder))
    subprocess.run(command, cwd=ROOT, check=True)
    package.build(folder, AGENTS)
    made = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in made)
    (folder / "SHA256SUMS").write_text(sums, encoding="utf-8")
    return [*made, folder / "SHA256SUMS"]


def main() -> int:
    """Check, then build; 3 where something keeps the version from being released."""
    found = [*disagreements(ROOT), *unclean()]
    for one in found:
        print(f"tools/release.py: {one}", file=sys.stderr)
    if found:
        return 3
    for path in build(ROOT / "dist"):
        print(path.relative_to(ROOT))
    print("What comes next: docs/howto/release.md")
    return 0


def _toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _git(*arguments: str) -> str:
    return subprocess.run(("git", *arguments), cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
