"""What Debian's backports have besides: newer packages for the release this machine's apt gets its own from.

apt is given lists and sources of its own for it: those of the machine stay as they are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from latlab.errors import LabError
from latlab.lab.images.packages import Apt
from latlab.lab.images.tools import printed

LISTS = Path("/var/lib/apt/lists")
FORMAT = "$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)"


def backports(cache: Path) -> Apt:
    """An apt that takes packages from there first. LabError: there are none, or they cannot be asked for.

    cache: the folder its lists are kept in. They are fetched when the machine's own are newer; where that fails, those
    fetched before serve: an image is not made anew with an older QEMU because the network is away.
    """
    folder = (cache / "backports").absolute()
    (folder / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    sources, (release, lines) = folder / "sources.list", _sources()
    options = (
        *("-o", f"Dir::Etc::sourcelist={sources}", "-o", "Dir::Etc::sourceparts=-"),
        *("-o", f"Dir::State::lists={folder}/lists", "-o", "Dir::State::status=/dev/null"),
        *("-o", f"APT::Default-Release={release}"),
    )
    known = sources.exists() and sources.read_text() == lines
    if not known or _when(sources) < _when(LISTS):
        sources.write_text(lines)
        # Whatever ends this now: it is due again.
        os.utime(sources, (0, 0))
        try:
            printed("apt-get", "update", "-q", "--error-on=any", *options, remedy="look at the network")
            sources.touch()
        except LabError:
            if not known:
                sources.unlink()
                raise
    return Apt(folder, options)


def _sources() -> tuple[str, str]:
    """The release of the backports, and sources.list(5): all that the machine's apt has, and them."""
    rows = printed("apt-get", "indextargets", "--format", FORMAT, "Created-By: Packages").splitlines()
    targets = list(dict.fromkeys(tuple(row.split("|")) for row in rows))
    added = next(_backports(targets), None)
    if added is None:
        raise LabError("apt has no release of Debian's to look for backports of", where="building an image")
    lines = [f"deb {uri} {release} {component}\n" for _, uri, release, component in (*targets, added)]
    return added[2], "".join(lines)


def _backports(targets: list[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    for origin, uri, release, component in targets:
        if origin == "Debian" and component == "main" and "-" not in release:
            yield origin, uri, f"{release}-backports", component


def _when(path: Path) -> float:
    return path.stat().st_mtime
