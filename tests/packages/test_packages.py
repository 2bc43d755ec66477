"""Packages install on clean machines, measure there, say what is in them, and are equal whenever they are built."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from zipfile import ZipFile

import pytest

import latlab
from components import AGENT
from latlab.testbed.architecture import ARCHITECTURES, BY_DEBIAN
from package import RELEASES, PackageError, Release, found_agents, run_time_lock
from support.machine import private_network
from support.packages.alpine import PYTHON, PYTHON_VERSION, alpine_archive, download
from support.packages.container import ImageBuilder
from support.packages.debian import FINISHED, Dist, Root, agents_in, quickly_built, resolved, root_archive

pytestmark = [pytest.mark.real, pytest.mark.long]

ROOT = Path(__file__).parents[2]
LAB_ARCHITECTURE = "amd64"
"""Of the clean machines."""
SMALL = """\
name: small
hosts: {a: {kind: netns}, b: {kind: netns}}
links: [{ends: [a.eth0, b.eth0]}]
streams: {control: {talker: a, listener: b, period: 2ms, size: 64B}}
duration: 1s
warmup: 100ms
"""


def measured(root: Root, latlab: str) -> None:
    """What is installed there, as `latlab`, sends packets and receives them."""
    (root.folder / "root/small.yaml").write_text(SMALL)
    ran = root.run(latlab, "run", "small.yaml", "--json")
    assert ran.returncode in FINISHED, ran.stdout + ran.stderr
    (result,) = (root.folder / "root/runs").glob("*/result.json")
    (cell,) = json.loads(result.read_text())["cells"]
    counts = cell["streams"]["control"]["counts"]
    assert counts["sent"] == counts["received"] == 500


@pytest.fixture(scope="session")
def roots(pytestconfig: pytest.Config) -> Path:
    """Where archives of distributions are kept."""
    if BY_DEBIAN[LAB_ARCHITECTURE].name != os.uname().machine:
        pytest.skip(f"the clean machines are of {LAB_ARCHITECTURE}, and this machine is {os.uname().machine}")
    return pytestconfig.cache.mkdir("roots")


@pytest.mark.parametrize("release", RELEASES, ids=lambda one: one.name)
def test_on_a_clean_debian_the_package_installs_and_measures(
    release: Release, dist: Dist, tmp_path: Path, roots: Path
) -> None:
    package = dist.only(f"latlab_*~deb{release.number}_{LAB_ARCHITECTURE}.deb")
    archive = root_archive(release.name, package, roots)
    with private_network():
        root = Root(archive, tmp_path / "root")
        installed = root.install([package, dist.only("latlab-agent_*_amd64.deb")])
        assert installed.returncode == 0, installed.stdout + installed.stderr
        assert {*agents_in(root.run("latlab", "--version").stdout).items()} == {
            (architecture, latlab.__version__) for architecture in ARCHITECTURES
        }
        assert root.run(AGENT, "--version").stdout.startswith(f"{AGENT} {latlab.__version__}, built for x86_64")
        measured(root, "latlab")
        for page in ("latlab", "latlab-run", AGENT):
            assert (root.folder / f"usr/share/man/man1/{page}.1.gz").is_file()
        removed = root.run("dpkg", "--remove", "latlab")
        assert removed.returncode == 0 and not (root.folder / "usr/lib/latlab").exists(), removed.stderr


def test_on_another_distribution_with_another_c_library_the_wheel_installs_and_measures(
    dist: Dist, tmp_path: Path, roots: Path
) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    download(wheels, "--require-hashes", "--requirement", str(run_time_lock(tmp_path)))
    shutil.copy(dist.only("*.whl"), wheels)
    archive = alpine_archive(roots)
    with private_network():
        root = Root(archive, tmp_path / "root")
        assert "ID=alpine" in root.run("cat", "/etc/os-release").stdout.splitlines()
        shutil.copytree(wheels, root.folder / "tmp/wheels")
        assert root.run(f"/{PYTHON}/bin/python{PYTHON_VERSION}", "-m", "venv", "venv").returncode == 0
        found = ("--quiet", "--disable-pip-version-check", "--no-index", "--find-links", "/tmp/wheels")
        installed = root.run("venv/bin/pip", "install", *found, "latlab")
        assert installed.returncode == 0, installed.stdout + installed.stderr
        said = root.run("venv/bin/latlab", "--version").stdout
        assert agents_in(said) == dict.fromkeys(ARCHITECTURES, latlab.__version__)
        measured(root, "venv/bin/latlab")
        # That Python has no bz2, as any that was compiled where the headers of libbz2 were missing.
        (root.folder / "root/figures.bz2").write_bytes(bz2.compress(b"1 2 3\n"))
        refused = root.run("venv/bin/latlab", "import", "figures.bz2")
        assert refused.returncode and "unpack it first: bunzip2 figures.bz2" in refused.stderr


def test_two_builds_are_equal(dist: Dist, tmp_path: Path) -> None:
    again = tmp_path / "elsewhere/dist"
    quickly_built(again, dist.agents)
    for path in again.iterdir():
        assert digest(path) == digest(dist.folder / path.name), path.name


@pytest.mark.parametrize("architecture", BY_DEBIAN)
@pytest.mark.parametrize("release", RELEASES, ids=lambda one: one.name)
def test_all_that_is_compiled_in_a_lab_package_is_for_its_architecture(
    release: Release, architecture: str, dist: Dist, tmp_path: Path
) -> None:
    package = dist.only(f"latlab_*~deb{release.number}_{architecture}.deb")
    command = ("dpkg-deb", "--field", package, "Architecture", "Depends", "Recommends")
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert f"Architecture: {architecture}\n" in said and f"python3 (>= {release.python})" in said
    assert ("qemu-system-arm" in said) is (architecture == "arm64")
    subprocess.run(("dpkg-deb", "-x", package, tmp_path), check=True)
    compiled = [path for path in tmp_path.rglob("*.so*") if path.read_bytes()[:4] == b"\x7fELF"]
    machines = {int.from_bytes(path.read_bytes()[18:20], "little") for path in compiled}
    assert machines == {BY_DEBIAN[architecture].elf}
    for needed in ("numpy", "polars", "pydantic_core"):
        assert any(needed in str(path) for path in compiled), needed
    python = f"cpython-{release.python.replace('.', '')}-"
    assert all(python in path.name for path in compiled if "cpython-" in path.name)


@pytest.mark.parametrize("release", RELEASES, ids=lambda one: one.name)
def test_a_debian_on_arm_has_what_the_lab_package_depends_on(release: Release, dist: Dist, tmp_path: Path) -> None:
    package = dist.only(f"latlab_*~deb{release.number}_arm64.deb")
    version = package.name.split("_")[1]
    said = resolved(release.name, "arm64", package, tmp_path)
    assert re.search(rf"^Inst latlab \({re.escape(version)} .*\[arm64\]\)$", said, re.MULTILINE), said


def test_the_bill_names_what_is_linked_in_and_what_is_needed(dist: Dist) -> None:
    bill = json.loads(dist.only("*.cdx.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["purl"] == f"pkg:pypi/latlab@{latlab.__version__}"
    names = {one["name"] for one in bill["components"]}
    assert {AGENT, "arrow-ipc", "cyclonedds", "glibc", "rust-std", "numpy", "polars"} <= names
    assert not {"proptest", "serde_derive", "bindgen", "pytest", "ruff", "lxml"} & names
    known = {bill["metadata"]["component"]["bom-ref"], *(one["bom-ref"] for one in bill["components"])}
    assert len(known) == len(bill["components"]) + 1
    for one in bill["dependencies"]:
        assert {one["ref"], *one["dependsOn"]} <= known
    assert all(one["licenses"] for one in bill["components"])
    with ZipFile(dist.only("*.whl")) as wheel:
        (inside,) = (name for name in wheel.namelist() if name.endswith(".cdx.json"))
        assert json.loads(wheel.read(inside)) == bill


def test_every_crate_that_is_linked_in_is_listed_with_its_licence_and_the_text(dist: Dist, tmp_path: Path) -> None:
    subprocess.run(("dpkg-deb", "-x", dist.only("latlab-agent_*_arm64.deb"), tmp_path), check=True)
    text = (tmp_path / f"usr/share/doc/{AGENT}/THIRD-PARTY-LICENSES").read_text(encoding="utf-8")
    for crate in ("arrow-ipc", "serde_json", "cyclonedds", "glibc"):
        assert re.search(rf"^{crate} \S+ +\S", text, re.MULTILINE)
    assert "Eclipse Public License - v 2.0" in text and "GNU LESSER GENERAL PUBLIC LICENSE" in text
    assert gzip.decompress((tmp_path / f"usr/share/man/man1/{AGENT}.1.gz").read_bytes()).startswith(b".TH LATLAB-AGENT")


def test_the_recipe_of_an_image_installs_a_package_that_is_next_to_it(dist: Dist) -> None:
    lines = dist.only("Containerfile").read_text().splitlines()
    (pattern,) = (line.split()[1] for line in lines if line.startswith("COPY "))
    for architecture in BY_DEBIAN:
        assert dist.only(pattern.replace("${TARGETARCH}", architecture)).name.startswith("latlab_")
    (argument,) = (line for line in lines if line.startswith("ARG TARGETARCH"))
    assert lines.index(argument) > next(at for at, line in enumerate(lines) if line.startswith("FROM "))


def test_the_image_measures_with_the_privileges_that_a_container_is_said_to_need(
    dist: Dist, tmp_path: Path, roots: Path
) -> None:
    newest = RELEASES[-1]
    package = dist.only(f"latlab_*~deb{newest.number}_{LAB_ARCHITECTURE}.deb")
    image = ImageBuilder(tmp_path / "storage")
    image.build(root_archive(newest.name, package, roots), dist.folder)
    assert image.configured("Entrypoint") == "[latlab]"
    said = image.run("latlab", "--version").stdout
    assert agents_in(said) == dict.fromkeys(ARCHITECTURES, latlab.__version__)
    assert image.run("ssh", "-V").stderr.startswith("OpenSSH")
    page = (ROOT / "docs/howto/install.md").read_text(encoding="utf-8")
    named = re.findall(r"CAP_[A-Z_]+", " ".join(re.findall(r"^\| (CAP_.*?) \|", page, re.MULTILINE)))
    work = tmp_path / "work"
    work.mkdir()
    options = ("--volume", f"{work}:/work", *(f"--cap-add={one}" for one in named))
    first = ("latlab", "run", "first", "--picture", "none")
    with private_network():
        # As of a container that has the capabilities, and /proc/sys read-only.
        refused = image.run(*first, options=options)
        assert refused.returncode == 3 and "/proc/sys is read-only" in refused.stderr, refused.stderr
        ran = image.run(*first, options=options, privileged=True)
    assert ran.returncode in FINISHED, ran.stdout + ran.stderr
    (result,) = work.glob("runs/*/result.json")
    cells = json.loads(result.read_text())["cells"]
    assert len(cells) == 2 and all(cell["streams"]["control"]["counts"]["received"] for cell in cells)


def test_a_package_is_not_built_without_both_agents_of_this_version(agents: Path, tmp_path: Path) -> None:
    for path in agents.iterdir():
        shutil.copy(path, tmp_path)
    assert sorted(found_agents(tmp_path)) == sorted(ARCHITECTURES)
    other = next(one for one in ARCHITECTURES if one != os.uname().machine)
    path = tmp_path / f"{AGENT}-{other}"
    path.write_bytes(path.read_bytes().replace(f"{latlab.__version__}, built".encode(), b"0.0.1, built"))
    with pytest.raises(PackageError, match=f"not an agent of version {latlab.__version__} for {other}: `make agents`"):
        found_agents(tmp_path)
    path.unlink()
    with pytest.raises(PackageError, match=f"{AGENT}-{other} is missing: `make agents`"):
        found_agents(tmp_path)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
