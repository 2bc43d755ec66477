"""A folder of packages, and a clean Debian with no more in it than one of them names, to install it in."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest

import latlab
import package

MIRROR = "$(ORIGIN)|$(REPO_URI)"
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8", "COLUMNS": "100"}
INSTALLED_S = 1200
FINISHED = (0, 4)
"""Exit codes of a run that has measured: whether it can be trusted is a matter of the machine."""
QUICK = ("-Zzstd", "-z1", "--threads-max=1")


@dataclass(frozen=True)
class Dist:
    """folder: the packages. agents: what they were built of."""

    folder: Path
    agents: Path

    def only(self, pattern: str) -> Path:
        """The one package that is called so."""
        (found,) = self.folder.glob(pattern)
        return found


def agents_in(said: str) -> dict[str, str]:
    """What `latlab --version` prints of agents: architecture → version."""
    first, *others = said.splitlines()
    assert first == f"latlab {latlab.__version__}"
    return dict(re.findall(r"^agent for (\w+): ([^,]+), ", "\n".join(others), re.MULTILINE))


def quickly_built(folder: Path, agents: Path, only: Sequence[str] = ()) -> None:
    """Build packages as `make package` does, compressed less: that takes half of the time."""
    with mock.patch.object(package, "COMPRESSION", QUICK):
        package.build(folder, agents, only)


def root_archive(release: str, built: Path, kept: Path) -> Path:
    """The archive of a Debian with apt, dpkg and what the package depends on; made once, and kept in the folder."""
    depends = subprocess.run(
        ("dpkg-deb", "--field", built, "Depends"), check=True, capture_output=True, text=True
    ).stdout.strip()
    names = sorted({one.split()[0] for one in depends.split(",")})
    digest = hashlib.sha256(" ".join(names).encode()).hexdigest()[:16]
    archive = kept / f"{release}-{digest}.tar"
    if archive.exists():
        return archive
    if shutil.which("mmdebstrap") is None:
        pytest.skip("mmdebstrap is missing: `tools/require test` installs it")
    begun = archive.with_suffix(".begun")
    command = (
        *("mmdebstrap", "--quiet", "--mode=root", "--variant=apt", "--format=tar", f"--include={','.join(names)}"),
        *('--aptopt=Acquire::Languages "none"',),
        *(release, str(begun), f"deb {_mirror()} {release} main"),
    )
    made = subprocess.run(command, check=False, capture_output=True, text=True, timeout=INSTALLED_S)
    assert made.returncode == 0, made.stderr
    begun.rename(archive)
    return archive


def resolved(release: str, architecture: str, package: Path, place: Path) -> str:
    """What apt would do on a Debian of that architecture that installs the package, or why it cannot.

    Nothing is installed, and nothing of that architecture is run. place: a folder for apt's lists.
    """
    command = (
        *("mmdebstrap", "--verbose", "--simulate", "--mode=root", "--variant=extract"),
        *(f"--architectures={architecture}", f"--include={package}", '--aptopt=Acquire::Languages "none"'),
        "--hook-dir=/usr/share/mmdebstrap/hooks/file-mirror-automount",
        *(release, str(place / "none.tar"), f"deb {_mirror()} {release} main"),
    )
    made = subprocess.run(command, check=False, capture_output=True, text=True, timeout=INSTALLED_S)
    return made.stdout + made.stderr


def _mirror() -> str:
    """Where this machine gets Debian's packages from."""
    command = ("apt-get", "indextargets", "--format", MIRROR, "Created-By: Packages")
    rows = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    found = next((row.partition("|")[2] for row in rows if row.startswith("Debian|")), None)
    if found is None:
        pytest.skip("apt has no Debian here")
    return found


class Root:
    """A distribution in a folder. Use it inside a machine of the test's own (private_network)."""

    def __init__(self, archive: Path, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        subprocess.run(("tar", "--extract", "--numeric-owner", "-f", archive, "-C", folder), check=True)
        # Making namespaces in it changes how its root is mounted (ip-netns(8)).
        subprocess.run(("mount", "--bind", folder, folder), check=True)
        for name in ("dev", "proc", "sys"):
            subprocess.run(("mount", "--rbind", f"/{name}", folder / name), check=True)
        subprocess.run(("mount", "-t", "tmpfs", "tmpfs", folder / "run"), check=True)

    def run(self, *command: str | os.PathLike[str], cwd: str = "/root") -> subprocess.CompletedProcess[str]:
        """Run a command in it, and return what came of it."""
        # BusyBox's env(1) has no --chdir.
        inside = ("chroot", str(self.folder), "/bin/sh", "-c", 'cd "$0" && exec "$@"', cwd, *map(str, command))
        return subprocess.run(inside, check=False, capture_output=True, text=True, env=ENVIRONMENT, timeout=INSTALLED_S)

    def install(self, packages: Sequence[Path]) -> subprocess.CompletedProcess[str]:
        """Install packages with dpkg alone: it fetches nothing, and refuses one whose dependencies are missing."""
        for one in packages:
            shutil.copy(one, self.folder / "tmp")
        return self.run("dpkg", "--install", *(f"/tmp/{one.name}" for one in packages))
