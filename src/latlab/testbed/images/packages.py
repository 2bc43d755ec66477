"""Debian packages: which there are here and in other archives, downloading and unpacking them. Nothing is installed."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from latlab.model.errors import LabError

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


# Calling Debian's own tools, which change nothing on this machine.


ENVIRONMENT = {"LC_ALL": "C.UTF-8"}
Say = Callable[[str], None]
"""Called with a line for each step."""
NO_ROOM = ("No space left on device", "Disk quota exceeded", "You don't have enough free space", ": Wrote only ")
"""What tools say when a file system is full; the last is tar's, of a file that just did not fit."""


def printed(*argv: str, cwd: Path | None = None, remedy: str = "") -> str:
    """What the command printed. LabError: it is not here, or it failed, with what it complained of and the remedy.

    OSError: it had no room to write.
    """
    try:
        done = subprocess.run(
            argv,
            check=False,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            cwd=cwd,
            env=os.environ | ENVIRONMENT,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError:
        raise LabError(
            f"{argv[0]} is not on the PATH",
            where="building an image",
            remedy="images are built from Debian's packages: build them on Debian, and copy the images folder",
        ) from None
    if done.returncode and any(words in done.stderr for words in NO_ROOM):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(cwd or ""))
    if done.returncode:
        raise LabError(f"{_name(argv)} failed: {_complaint(done.stderr)}", where="building an image", remedy=remedy)
    return done.stdout


def _name(argv: Sequence[str]) -> str:
    return " ".join(argv[:2])


def _complaint(stderr: str) -> str:
    """The errors among what a tool said, in one line; its first line when it marked none as such."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("E: ") for line in lines if line.startswith("E: ")]
    return "; ".join(dict.fromkeys(errors)) or (lines[0] if lines else "with no message")


# What Debian has besides what this machine's apt knows: backports, other components, other architectures.
#
# apt is given separate lists and sources for it: those of the machine stay as they are.


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
