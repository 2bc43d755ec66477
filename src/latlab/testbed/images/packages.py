"""Debian packages: which versions there are, downloading and unpacking them. Nothing is installed."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from latlab.model.errors import LabError
from latlab.testbed.images.tools import printed

UPDATE = "`apt-get update` refreshes apt's package lists"
LIBRARIES = "libs"
KBUILD = "linux-kbuild-"
HEADERS = ("linux-headers-", KBUILD)
SERIES = re.compile(r"(?:\d+:)?(\d+\.\d+)")
"""Of a kernel's version what its package of sources is called by."""


@dataclass(frozen=True)
class Package:
    """A package as apt would install it today. depends: what it needs, the first of alternatives each.

    size: bytes to be fetched; unpacked_size: bytes its files take. apt: the options of the apt that knows it.
    """

    name: str
    version: str
    architecture: str
    section: str
    depends: tuple[str, ...]
    size: int
    unpacked_size: int
    apt: tuple[str, ...] = field(default=(), compare=False, repr=False)

    @property
    def file(self) -> str:
        """The name `apt-get download` gives it."""
        return f"{self.name}_{self.version.replace(':', '%3a')}_{self.architecture}.deb"


def machine_architecture() -> str:
    """Debian's name of this machine's architecture: amd64, arm64. LabError: no Debian."""
    return printed("dpkg", "--print-architecture").strip()


class Apt:
    """What apt knows of packages on this machine."""

    def __init__(self, cache: Path, options: tuple[str, ...] = ()) -> None:
        """cache: a folder in which apt may keep what makes the next question quicker. options: of apt(8)'s commands."""
        cache.mkdir(parents=True, exist_ok=True)
        kept = ("-o", f"Dir::Cache::pkgcache={cache.absolute()}/apt.bin", "-o", "Dir::Cache::srcpkgcache=")
        self._options = (*kept, *options)

    def packages(self, names: Iterable[str]) -> list[Package]:
        """The packages, in that order. LabError: apt knows no such package."""
        wanted = list(dict.fromkeys(names))
        known = {package.name: package for package in self._known(wanted)}
        if unknown := [name for name in wanted if name not in known]:
            raise _unknown(unknown, self._options)
        return [known[name] for name in wanted]

    def kernel(self, *metas: str) -> Package:
        """The package of the kernel that the first of the packages `metas` that there is stands for.

        LabError: apt knows none of them, or not the kernel.
        """
        known = {package.name: package for package in self._known(list(metas))}
        meta = next((known[name] for name in metas if name in known), None)
        if meta is None:
            raise _unknown(metas, self._options)
        kernel = next((name for name in meta.depends if name.startswith("linux-image-")), None)
        if kernel is None:
            raise LabError(f"{meta.name} {meta.version} names no kernel", where="building an image", remedy=UPDATE)
        return self.packages([kernel])[0]

    def headers(self, kernel: Package, programs: Apt | None = None) -> list[Package]:
        """The packages that modules for that kernel are compiled with; none if apt has not all of them.

        programs: the apt that knows those that are run for it, if this one's are for another architecture.
        """
        name = f"linux-headers-{kernel.name.removeprefix('linux-image-').removesuffix('-unsigned')}"
        own = [package for package in self._known([name]) if package.version == kernel.version]
        wanted = [one for package in own for one in package.depends if one.startswith(HEADERS)]
        run = [name for name in wanted if name.startswith(KBUILD)] if programs else []
        shared = list(self._known([name for name in wanted if name not in run])) if wanted else []
        shared += programs._known(run) if programs and run else []
        return [*own, *shared] if len(shared) == len(wanted) else []

    def source(self, kernel: Package) -> Package | None:
        """The package of that kernel's source; None if apt has it not, or only of other versions."""
        series = SERIES.match(kernel.version)
        names = [f"linux-source-{series[1]}={kernel.version}"] if series else []
        return next((package for package in self._known(names) if package.version == kernel.version), None)

    def libraries_of(self, packages: Iterable[Package]) -> list[Package]:
        """The packages of libraries that these depend on, and those libraries in turn; by name."""
        found: dict[str, Package] = {}
        seen: set[str] = set()
        missing = {name for package in packages for name in package.depends}
        while missing:
            seen |= missing
            # A name without a package is a virtual one; one without a provider shows when a library is not found.
            known = self._known(sorted(missing))
            new = [package for package in known if package.section.rpartition("/")[2] == LIBRARIES]
            found |= {package.name: package for package in new}
            missing = {name for package in new for name in package.depends} - seen
        return [found[name] for name in sorted(found)]

    def _known(self, names: list[str]) -> Iterator[Package]:
        """Of these names what apt has a package for."""
        for paragraph in filter(str.strip, self._show(names).split("\n\n")):
            fields = dict(re.findall(r"^([\w-]+): (.*)$", paragraph, re.MULTILINE))
            yield Package(
                name=fields["Package"],
                version=fields["Version"],
                architecture=fields["Architecture"],
                section=fields.get("Section", ""),
                depends=tuple(_depends(fields)),
                size=int(fields["Size"]),
                unpacked_size=int(fields.get("Installed-Size", 0)) * 1024,
                apt=self._options,
            )

    def _show(self, names: list[str]) -> str:
        try:
            return printed("apt-cache", "show", "--no-all-versions", *self._options, *names)
        except LabError as error:
            # What it says where all of the names are unknown; of some of them it says nothing.
            if "No packages found" in error.what:
                return ""
            raise


def fetch(packages: Iterable[Package], cache: Path) -> list[Path]:
    """The packages' files in the folder `cache`, in that order; only what is not there is fetched.

    LabError: one cannot be fetched.
    """
    wanted = list(packages)
    cache.mkdir(parents=True, exist_ok=True)
    missing = [package for package in wanted if not (cache / package.file).exists()]
    if missing:
        with tempfile.TemporaryDirectory(dir=cache, prefix=".fetching-") as scratch:
            for options in dict.fromkeys(package.apt for package in missing):
                names = [f"{package.name}={package.version}" for package in missing if package.apt == options]
                remedy = f"check the network; {UPDATE}"
                printed("apt-get", "download", "-q", *options, *names, cwd=Path(scratch), remedy=remedy)
            for package in missing:
                os.replace(Path(scratch) / package.file, cache / package.file)
    return [cache / package.file for package in wanted]


def unpack(file: Path, folder: Path) -> None:
    """Unpack the package's files into the folder. LabError: it is no whole package."""
    printed("dpkg", "-x", str(file), str(folder), remedy=f"delete {file}: it is downloaded again")


def to_be_fetched(packages: Iterable[Package], cache: Path) -> int:
    """Bytes of the packages that are not in the folder `cache` yet."""
    return sum(package.size for package in packages if not (cache / package.file).exists())


def _unknown(names: Sequence[str], options: tuple[str, ...]) -> LabError:
    """What to say of packages of which apt knows none, with where it looked. options: of apt(8)'s commands."""
    shown = "$(SITE) $(RELEASE) $(COMPONENT)"
    archives = printed("apt-get", "indextargets", *options, "--format", shown, "Created-By: Packages")
    where = ", ".join(dict.fromkeys(archives.splitlines())) or "no archive: its package lists are empty"
    what = f"apt finds no package {', '.join(names)}; it searched {where}"
    return LabError(what, where="building an image", remedy=UPDATE)


def _depends(fields: dict[str, str]) -> Iterator[str]:
    for name in ("Pre-Depends", "Depends"):
        for alternatives in filter(None, fields.get(name, "").split(",")):
            first = alternatives.split("|")[0]
            yield re.split(r"[\s:(]", first.strip())[0]
