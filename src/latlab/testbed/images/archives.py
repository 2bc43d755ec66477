"""What Debian has besides what this machine's apt knows: backports, other components, other architectures.

apt is given separate lists and sources for it: those of the machine stay as they are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from latlab.model.errors import LabError
from latlab.testbed.images.packages import Apt
from latlab.testbed.images.tools import printed

LISTS = Path("/var/lib/apt/lists")
FORMAT = "$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)"
COMPONENTS = ("contrib", "non-free")
"""Of Debian what no machine has unless asked to (Debian Policy, 2.2.2 and 2.2.3)."""


@dataclass(frozen=True)
class _Target:
    """Where packages are: whose archive, its address, the release, and the component of that."""

    origin: str
    uri: str
    release: str
    component: str

    @property
    def line(self) -> str:
        """Of sources.list(5)."""
        return f"deb {self.uri} {self.release} {self.component}\n"


def backports(cache: Path, architecture: str | None = None) -> Apt:
    """An apt that takes packages from there first. LabError: there are none, or they cannot be asked for.

    architecture: Debian's name of that of its packages, if it is not this machine's. cache: the folder its lists are
    kept in. They are fetched when the machine's own are newer; where that fails, those
    fetched before serve: an image is not made again with an older QEMU because the network is away.
    """
    targets = _targets()
    uri, release = next(_releases(targets))
    added = _Target("Debian", uri, f"{release}-backports", "main")
    first = ("-o", f"APT::Default-Release={added.release}")
    if architecture is None:
        return _apt(cache / "backports", (*targets, added), first)
    return _apt(cache / f"backports-{architecture}", (*targets, added), (*first, *_only(architecture)))


def of_release(cache: Path, release: str) -> Apt:
    """An apt that takes packages first from that release of Debian, such as trixie. Errors, cache: as `backports`."""
    targets = _targets()
    uri, _ = next(_releases(targets))
    added = _Target("Debian", uri, release, "main")
    return _apt(cache / f"release-{release}", (*targets, added), ("-o", f"APT::Default-Release={release}"))


def foreign(cache: Path, architecture: str) -> Apt:
    """An apt that knows the packages for that architecture, and no others. Errors, cache: as of `backports`."""
    return _apt(cache / architecture, _targets(), _only(architecture))


def other_components(cache: Path) -> Apt:
    """An apt that knows COMPONENTS, too, whose packages are not all free software. Errors, cache: as of `backports`."""
    targets = _targets()
    found = (_Target("Debian", *place, component) for place in _releases(targets) for component in COMPONENTS)
    return _apt(cache / "components", (*targets, *found))


def _only(architecture: str) -> tuple[str, ...]:
    """The options of apt(8)'s commands by which there is no other architecture."""
    return ("-o", f"APT::Architecture={architecture}", "-o", f"APT::Architectures={architecture}")


def _apt(folder: Path, targets: Sequence[_Target], options: tuple[str, ...] = ()) -> Apt:
    """An apt with its sources and lists in the folder."""
    folder = folder.absolute()
    (folder / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    sources, lines = folder / "sources.list", "".join(dict.fromkeys(target.line for target in targets))
    options = (
        *("-o", f"Dir::Etc::sourcelist={sources}", "-o", "Dir::Etc::sourceparts=-"),
        *("-o", f"Dir::State::lists={folder}/lists", "-o", "Dir::State::status=/dev/null"),
        *options,
    )
    known = sources.exists() and sources.read_text() == lines
    if not known or _when(sources) < _when(LISTS):
        sources.write_text(lines)
        # Whatever ends this now: it is due again.
        os.utime(sources, (0, 0))
        try:
            printed("apt-get", "update", "-q", "--error-on=any", *options, remedy="check the network")
            sources.touch()
        except LabError:
            if not known:
                sources.unlink()
                raise
    return Apt(folder, options)


def _targets() -> tuple[_Target, ...]:
    """All that the machine's apt has."""
    rows = printed("apt-get", "indextargets", "--format", FORMAT, "Created-By: Packages").splitlines()
    return tuple(_Target(*row.split("|")) for row in dict.fromkeys(rows))


def _releases(targets: Sequence[_Target]) -> Iterator[tuple[str, str]]:
    """Address and name of each release of Debian's, without updates. LabError: the machine's apt has none."""
    found = [(one.uri, one.release) for one in targets if one.origin == "Debian" and one.component == "main"]
    releases = [place for place in found if "-" not in place[1]]
    if not releases:
        raise LabError("apt has no Debian release to search for other components", where="building an image")
    yield from releases


def _when(path: Path) -> float:
    return path.stat().st_mtime
