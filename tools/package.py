"""What people install: a wheel with both agents in it, Debian packages, and the recipe of a container image.

    tools/package.py FOLDER [--agents FOLDER] [--only KIND...]

    wheel    latlab-VERSION-….whl: the lab and both agents, for pip
    agents   latlab-agent_VERSION-1_amd64.deb and _arm64.deb: an agent alone, for a board
    labs     latlab_VERSION-1~debNN_amd64.deb and _arm64.deb: the lab, both agents and all Python packages that it needs
    image    Containerfile, which makes an image of the last of these
    bill     latlab-VERSION.cdx.json: the software bill of materials

Two builds of one commit with the same agents are the same, byte for byte. Times in them are those of SOURCE_DATE_EPOCH,
else of the last commit (reproducible-builds.org).
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import latlab
from components import ROOT, Component, bill, crates, libraries, licence_texts, python_packages
from latlab.cli.completion import SCRIPTS, Shell
from latlab.testbed.agent_binary import AGENT, architecture_of, is_of_this_version
from latlab.testbed.architecture import ARCHITECTURES, BY_DEBIAN
from man import agent_manual, file_name, manual, pages

VERSION = latlab.__version__
SHELL_FILES: Final = {
    Shell.BASH: "bash-completion/completions/latlab",
    Shell.ZSH: "zsh/site-functions/_latlab",
    Shell.FISH: "fish/vendor_completions.d/latlab.fish",
}
"""Where each shell looks below share."""
LICENCES: Final = "THIRD-PARTY-LICENSES"
MAINTAINER: Final = "The latlab developers <latlab@users.noreply.github.com>"
HOMEPAGE: Final = "https://github.com/latlab/latlab"
HOME: Final = "usr/lib/latlab"
"""The lab's own virtual environment on a Debian machine."""


@dataclass(frozen=True)
class Release:
    """A release of Debian: the number in package versions, and its Python."""

    number: str
    name: str
    python: str


RELEASES: Final = (Release("12", "bookworm", "3.11"), Release("13", "trixie", "3.13"))
NEEDS: Final = (
    *("libstdc++6", "zlib1g", "iproute2", "procps", "util-linux", "ethtool", "grep", "findutils", "coreutils"),
)
"""What the lab runs, and what its Python packages are linked with."""
RECOMMENDED: Final = ("iperf3", "openssh-client", "iputils-ping", "libpcap0.8", "linuxptp", "rt-tests")
QEMU: Final = {"amd64": "qemu-system-x86", "arm64": "qemu-system-arm"}
"""Debian's package of what runs an architecture's guests."""
WHEEL_PLATFORMS: Final = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_24", "manylinux_2_17", "manylinux2014")
"""What Debian 12's C library (2.36) serves, as pip names it."""
COMPRESSION: Final = ("-Zzstd", "-z9", "--threads-max=1")
"""dpkg-deb's output depends on its number of threads."""

POSTINST: Final = f"""\
#!/bin/sh
set -e
if [ "$1" = configure ]; then /{HOME}/bin/python3 -m compileall -q /{HOME}/lib || true; fi
"""
PRERM: Final = f"""\
#!/bin/sh
set -e
find /{HOME} -depth -name __pycache__ -type d -exec rm -r {{}} +
"""


class PackageError(Exception):
    """What keeps a package from being built, and what to do."""


def main() -> int:
    """Build what is asked for, and print where it is; 3 where something is missing."""
    parser = argparse.ArgumentParser(prog="tools/package.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--agents", type=Path, default=ROOT / ".venv/bin", help="where both agents are")
    parser.add_argument("--only", nargs="+", choices=BUILDERS, default=[*BUILDERS], metavar="KIND")
    asked = parser.parse_args()
    try:
        made = build(asked.folder, asked.agents, asked.only)
    except PackageError as error:
        print(f"tools/package.py: {error}", file=sys.stderr)
        return 3
    for path in made:
        print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")
    return 0


def build(folder: Path, agents_in: Path, only: Sequence[str] = ()) -> list[Path]:
    """Write the packages to the folder, and return their paths. PackageError: an agent is missing, or does not fit."""
    os.environ.setdefault("SOURCE_DATE_EPOCH", _last_commit())
    agents = found_agents(agents_in)
    folder.mkdir(parents=True, exist_ok=True)
    made: list[Path] = []
    for kind in only or BUILDERS:
        with tempfile.TemporaryDirectory(prefix="latlab-package-") as scratch:
            made += BUILDERS[kind](folder.absolute(), Path(scratch), agents)
    return made


def found_agents(folder: Path) -> dict[str, Path]:
    """The agent for each architecture, as uname(2) names it. PackageError: one is missing, or does not fit."""
    found = {}
    for architecture in ARCHITECTURES:
        own = folder / AGENT if architecture == os.uname().machine else folder / f"{AGENT}-{architecture}"
        path = next((one for one in (folder / f"{AGENT}-{architecture}", own) if one.exists()), None)
        if path is None:
            raise PackageError(f"{own} is missing: `make agents`")
        if architecture_of(path) != architecture or not is_of_this_version(path):
            raise PackageError(f"{path} is not an agent of version {VERSION} for {architecture}: `make agents`")
        found[architecture] = path
    return found


def wheel(folder: Path, scratch: Path, agents: Mapping[str, Path]) -> list[Path]:
    """Build the wheel (tools/wheel_hook.py reads what is laid out here)."""
    for architecture, path in agents.items():
        _copy(path, scratch / f"package/agents/{AGENT}-{architecture}", 0o755)
    # The crates are the same for both: one text serves.
    _write(scratch / f"package/agents/{LICENCES}", licences(*next(iter(agents.items()))))
    _write(scratch / f"dist-info/sboms/latlab-{VERSION}.cdx.json", bill_of_all(agents))
    shared(scratch / "share")
    environment = {**os.environ, "LATLAB_STAGED": str(scratch)}
    command = (sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder))
    built = subprocess.run(command, cwd=ROOT, check=False, env=environment, capture_output=True, text=True)
    if built.returncode:
        raise PackageError(f"the wheel cannot be built:\n{built.stderr.strip()}")
    return sorted(folder.glob(f"latlab-{VERSION}-*.whl"))


def shared(share: Path) -> None:
    """Write manual pages and completion scripts below the folder, where man and shells look."""
    shown = list(pages())
    names = [file_name(one) for one in shown]
    for one, name in zip(shown, names, strict=True):
        _write(share / f"man/man1/{name}.1", manual(one, [other for other in names if other != name]))
    for shell, path in SHELL_FILES.items():
        _write(share / path, SCRIPTS[shell])


def agent_packages(folder: Path, scratch: Path, agents: Mapping[str, Path]) -> list[Path]:
    """Build the Debian package of each agent."""
    helped = subprocess.run((agents[os.uname().machine], "--help"), check=True, capture_output=True, text=True).stdout
    made = []
    for debian, known in BY_DEBIAN.items():
        architecture = known.name
        root = scratch / debian
        _copy(agents[architecture], root / f"usr/bin/{AGENT}", 0o755)
        _write(root / f"usr/share/doc/{AGENT}/{LICENCES}", licences(architecture, agents[architecture]))
        _write(root / f"usr/share/man/man1/{AGENT}.1", agent_manual(helped))
        _documents(root, AGENT)
        fields = {
            "Package": AGENT,
            "Version": f"{VERSION}-1",
            "Architecture": debian,
            "Description": "sends, receives and stamps packets for latlab\n"
            " One static program. latlab copies it to machines over ssh automatically; this package is\n"
            " for using it alone, as docs/reference/agent.md describes.",
        }
        made.append(_deb(folder / f"{AGENT}_{VERSION}-1_{debian}.deb", root, fields))
    return made


def lab_packages(folder: Path, scratch: Path, agents: Mapping[str, Path]) -> list[Path]:
    """Build the lab's Debian package for each release and architecture."""
    wheels = sorted(folder.glob(f"latlab-{VERSION}-*.whl")) or wheel(scratch, scratch / "staged", agents)
    return [
        lab_package(folder, scratch / f"{release.name}-{architecture}", wheels[0], release, architecture)
        for release in RELEASES
        for architecture in BY_DEBIAN
    ]


def lab_package(folder: Path, root: Path, built: Path, release: Release, architecture: str) -> Path:
    """Build the lab's package for that release: a virtual environment with all that the lab needs from PyPI in it.

    Debian has these packages in versions that are too old. built: the wheel. architecture: Debian's name of it.
    """
    packages = root / HOME / f"lib/python{release.python}/site-packages"
    _install(packages, release, architecture, "--require-hashes", "--requirement", str(run_time_lock(root.parent)))
    _install(packages, release, architecture, "--no-index", "--find-links", str(built.parent), f"latlab=={VERSION}")
    shutil.rmtree(packages / "bin")  # their commands: none is latlab's, and they start this machine's Python
    shutil.move(packages / "share", root / "usr/share")
    for page in (root / "usr/share/man").rglob("*.1"):
        if not page.name.startswith("latlab"):
            page.unlink()
    _write(
        root / HOME / "pyvenv.cfg",
        f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {release.python}\n",
    )
    (root / HOME / "bin").mkdir()
    (root / HOME / "bin/python3").symlink_to(f"/usr/bin/python{release.python}")
    start = f"#!/{HOME}/bin/python3 -P\nimport sys\n\nfrom latlab.cli import main\n\nsys.exit(main())\n"
    _write(root / HOME / "bin/latlab", start, 0o755)
    (root / "usr/bin").mkdir()
    (root / "usr/bin/latlab").symlink_to("../lib/latlab/bin/latlab")
    _documents(root, "latlab")
    version = f"{VERSION}-1~deb{release.number}"
    major, minor = release.python.split(".")
    fields = {
        "Package": "latlab",
        "Version": version,
        "Architecture": architecture,
        "Depends": ", ".join((f"python3 (>= {release.python})", f"python3 (<< {major}.{int(minor) + 1})", *NEEDS)),
        "Recommends": ", ".join((*RECOMMENDED, QEMU[architecture])),
        "Description": "measures how late time-sensitive packets arrive, and why\n"
        " latlab sends periodic packets between machines, network namespaces and virtual machines,\n"
        " stamps them on their path, and reports which stage delayed the late ones.",
    }
    scripts = {"postinst": POSTINST, "prerm": PRERM}
    return _deb(folder / f"latlab_{version}_{architecture}.deb", root, fields, scripts)


def _install(packages: Path, release: Release, architecture: str, *what: str) -> None:
    """Unpack wheels for that release's Python into the folder. PackageError: pip cannot get one."""
    name = BY_DEBIAN[architecture].name
    platforms = [option for one in WHEEL_PLATFORMS for option in ("--platform", f"{one}_{name}")]
    command = (
        *(
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--no-compile",
        ),
        *("--only-binary", ":all:", "--implementation", "cp", "--python-version", release.python, *platforms),
        *("--target", str(packages), "--upgrade", *what),
    )
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    if ended.returncode:
        raise PackageError(f"pip cannot get what Python {release.python} needs:\n{ended.stderr.strip()}")


def run_time_lock(scratch: Path) -> Path:
    """Of requirements.lock what the lab needs when it runs."""
    wanted = {one.purl.rpartition("/")[2].replace("@", "==") for one in python_packages()[1:]}
    entries = re.split(r"\n(?=\S)", (ROOT / "requirements.lock").read_text(encoding="utf-8").strip())
    kept = [entry for entry in entries if entry.split()[0] in wanted]
    if missing := wanted - {entry.split()[0] for entry in kept}:
        raise PackageError(f"requirements.lock has not {', '.join(sorted(missing))}: `make python`")
    path = scratch / "run-time.lock"
    path.write_text("\n".join(kept) + "\n", encoding="utf-8")
    return path


def _documents(root: Path, package: str) -> None:
    """Write what Debian Policy asks for in /usr/share/doc, and compress manual pages (12.1, 12.5, 12.7)."""
    folder = root / "usr/share/doc" / package
    licence = "\n\n".join((ROOT / name).read_text(encoding="utf-8") for name in ("LICENSE-MIT", "LICENSE-APACHE"))
    _write(folder / "copyright", f"latlab, {HOMEPAGE}\nLicence: MIT OR Apache-2.0, at your choice.\n\n{licence}")
    _write(folder / "changelog", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    for path in (folder / "changelog", *(root / "usr/share/man").rglob("*.1")):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
        path.unlink()


def _deb(path: Path, root: Path, fields: Mapping[str, str], scripts: Mapping[str, str] | None = None) -> Path:
    """Pack the folder with these fields of deb-control(5) and scripts, and return the package's path."""
    files = sorted(one for one in root.rglob("*") if one.is_file() and not one.is_symlink())
    size_kb = sum(one.stat().st_size for one in files) // 1024
    first = {"Package": fields["Package"], "Version": fields["Version"], "Architecture": fields["Architecture"]}
    shared_fields = {
        "Maintainer": MAINTAINER,
        "Installed-Size": str(size_kb),
        "Section": "net",
        "Priority": "optional",
        "Homepage": HOMEPAGE,
    }
    control = "".join(f"{name}: {text}\n" for name, text in {**first, **shared_fields, **fields}.items())
    sums = "".join(f"{hashlib.md5(one.read_bytes()).hexdigest()}  {one.relative_to(root)}\n" for one in files)
    _write(root / "DEBIAN/control", control)
    _write(root / "DEBIAN/md5sums", sums)
    for name, text in (scripts or {}).items():
        _write(root / "DEBIAN" / name, text, 0o755)
    seconds = int(os.environ["SOURCE_DATE_EPOCH"])
    for one in (root, *root.rglob("*")):
        if one.is_dir() and not one.is_symlink():
            one.chmod(0o755)
        os.utime(one, (seconds, seconds), follow_symlinks=False)
    command = ("dpkg-deb", "--root-owner-group", *COMPRESSION, "--build", str(root), str(path))
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return path


def image_recipe(folder: Path, scratch: Path, agents: Mapping[str, Path]) -> list[Path]:
    """Write the recipe of a container image beside the package that it installs."""
    path = folder / "Containerfile"
    _write(path, (ROOT / "tools/Containerfile").read_text(encoding="utf-8"))
    return [path]


def bills(folder: Path, scratch: Path, agents: Mapping[str, Path]) -> list[Path]:
    """Write the bill of materials."""
    path = folder / f"latlab-{VERSION}.cdx.json"
    _write(path, bill_of_all(agents))
    return [path]


def bill_of_all(agents: Mapping[str, Path]) -> str:
    """The bill of materials of the lab and both agents."""
    lab, *python = python_packages()
    linked = (one for architecture, agent in agents.items() for one in _linked(architecture, agent))
    return bill(lab, (*python, *linked))


def licences(architecture: str, agent: Path) -> str:
    """What is linked into that agent, and under which licences."""
    return licence_texts(_linked(architecture, agent))


@cache
def _linked(architecture: str, agent: Path) -> Sequence[Component]:
    made = crates(f"{architecture}-unknown-linux-gnu")
    return [*made, *libraries(made, agent, architecture)]


def _last_commit() -> str:
    """When the last commit was made, in seconds; of a source archive: when the changelog was last written."""
    command = ("git", "log", "-1", "--format=%ct")
    said = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True).stdout.strip()
    return said or str(int((ROOT / "CHANGELOG.md").stat().st_mtime))


def _copy(source: Path, path: Path, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, path)
    path.chmod(mode)


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


BUILDERS: Final = {
    "wheel": wheel,
    "agents": agent_packages,
    "labs": lab_packages,
    "image": image_recipe,
    "bill": bills,
}
"""What can be built; later ones use what earlier ones have built."""

if __name__ == "__main__":
    sys.exit(main())
