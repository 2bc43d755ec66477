"""What packages are made of: the crates and libraries linked into the agents, and the Python packages of the lab.

From that come the software bill of materials (CycloneDX 1.6, https://cyclonedx.org/docs/1.6/json/) and the texts of
the licences of what is linked in.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import tomllib
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
AGENT = "latlab-agent"
OWN = "MIT OR Apache-2.0"
LICENCE_FILE = re.compile(r"(licen[cs]e|copying|notice|copyright|unlicense)\b.*", re.IGNORECASE)
COMMON = Path("/usr/share/common-licenses")
"""Debian's copies of the licences that many packages share."""


@dataclass(frozen=True)
class Component:
    """Something that a package has in it. licence: an SPDX expression. needs: the purls of what it needs in turn.

    texts: its licences' files. sha256: of the file that it was published as; empty: not known.
    """

    name: str
    version: str
    purl: str
    licence: str
    texts: tuple[Path, ...] = ()
    sha256: str = ""
    needs: tuple[str, ...] = field(default=(), compare=False)


def crates(target: str) -> list[Component]:
    """The crates linked into the agent for that target, the agent itself first, then by name."""
    command = ("cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target)
    said = subprocess.run(command, cwd=ROOT / "agent", check=True, capture_output=True, text=True).stdout
    found = json.loads(said)
    packages = {one["id"]: one for one in found["packages"]}
    nodes = {one["id"]: one["deps"] for one in found["resolve"]["nodes"]}
    locked = tomllib.loads((ROOT / "agent/Cargo.lock").read_text(encoding="utf-8"))["package"]
    sums = {(one["name"], one["version"]): one.get("checksum", "") for one in locked}
    (agent,) = (one for one in packages if packages[one]["name"] == AGENT)
    linked: dict[str, list[str]] = {}
    waiting = deque([agent])
    while waiting:
        one = waiting.popleft()
        if one not in linked:
            linked[one] = [dep["pkg"] for dep in nodes[one] if _is_linked(dep, packages[dep["pkg"]])]
            waiting += linked[one]
    made = [
        _crate(packages[one], sums, [_crate_purl(packages[need]) for need in needs]) for one, needs in linked.items()
    ]
    return [made[0], *sorted(made[1:], key=lambda one: (one.name, one.version))]


def _is_linked(dependency: dict[str, Any], package: dict[str, Any]) -> bool:
    """Not what only tests, build scripts or the compiler need."""
    is_normal = any(kind["kind"] is None for kind in dependency["dep_kinds"])
    return is_normal and not any("proc-macro" in target["kind"] for target in package["targets"])


def _crate(package: dict[str, Any], sums: dict[tuple[str, str], str], needs: list[str]) -> Component:
    folder = Path(package["manifest_path"]).parent
    texts = sorted(path for path in folder.iterdir() if path.is_file() and LICENCE_FILE.fullmatch(path.name))
    return Component(
        name=package["name"],
        version=package["version"],
        purl=_crate_purl(package),
        licence=(package["license"] or "see its text").replace("/", " OR "),
        texts=tuple(texts),
        sha256=sums.get((package["name"], package["version"]), ""),
        needs=tuple(sorted(needs)),
    )


def _crate_purl(package: dict[str, Any]) -> str:
    return f"pkg:cargo/{package['name']}@{package['version']}"


def libraries(made: Sequence[Component], agent: Path, architecture: str) -> list[Component]:
    """What is linked into the agent besides the crates `made`: Cyclone DDS, and the libraries of Rust, C and GCC.

    agent: its file, in which the compilers of Rust and C have left their versions.
    """
    (cyclors,) = (one for one in made if one.name == "cyclors")
    dds = cyclors.texts[0].parent / "cyclonedds"
    stated = re.search(r"project\(\s*CycloneDDS\s+VERSION\s+([\d.]+)", (dds / "CMakeLists.txt").read_text("utf-8"))
    content = agent.read_bytes()
    rust = _stated(rb"rustc version ([\d.]+)", content)
    gcc = _stated(rb"GCC: \([^)]*\) ([\d.]+)", content)
    glibc = _package_version("libc6-dev", architecture)
    return [
        Component(
            "cyclonedds",
            stated[1] if stated else "unknown",
            f"pkg:github/eclipse-cyclonedds/cyclonedds@{stated[1] if stated else 'unknown'}",
            "EPL-2.0 OR BSD-3-Clause",
            (dds / "LICENSE", dds / "NOTICE.md"),
        ),
        Component("rust-std", rust, f"pkg:generic/rust-std@{rust}", OWN),
        Component("glibc", glibc, f"pkg:deb/debian/glibc@{glibc}", "LGPL-2.1-or-later", (COMMON / "LGPL-2.1",)),
        Component(
            "libgcc",
            gcc,
            f"pkg:generic/libgcc@{gcc}",
            "GPL-3.0-or-later WITH GCC-exception-3.1",
            (COMMON / "GPL-3",),
        ),
    ]


def _stated(pattern: bytes, content: bytes) -> str:
    found = re.search(pattern, content)
    return found[1].decode() if found else "unknown"


def _package_version(package: str, architecture: str) -> str:
    """The version of a package of Debian's that an agent is linked with; or `unknown`."""
    debian = {"x86_64": "amd64", "aarch64": "arm64"}[architecture]
    for name in (f"{package}:{debian}", f"{package}-{debian}-cross"):
        command = ("dpkg-query", "--show", "--showformat=${Version}", name)
        try:
            said = subprocess.run(command, check=False, capture_output=True, text=True)
        except FileNotFoundError:
            break
        if said.returncode == 0 and said.stdout:
            return said.stdout
    return "unknown"


def python_packages(name: str = "latlab") -> list[Component]:
    """The Python packages that a package needs at run time, itself first, in the versions installed here."""
    found: dict[str, Component] = {}
    waiting = deque([name])
    while waiting:
        one = waiting.popleft()
        if canonicalize_name(one) in found:
            continue
        package = metadata.distribution(one)
        wanted = [Requirement(text) for text in package.requires or ()]
        needs = [need.name for need in wanted if need.marker is None or need.marker.evaluate({"extra": ""})]
        waiting += needs
        found[canonicalize_name(one)] = Component(
            name=package.name,
            version=package.version,
            purl=_python_purl(one),
            licence=_python_licence(package),
            needs=tuple(sorted(_python_purl(need) for need in needs)),
        )
    first, *others = found.values()
    return [first, *sorted(others, key=lambda one: one.name.lower())]


def _python_purl(name: str) -> str:
    return f"pkg:pypi/{canonicalize_name(name)}@{metadata.version(name)}"


def _python_licence(package: metadata.Distribution) -> str:
    """As the package states it: an SPDX expression, else its classifiers, else the first line of its text."""
    said = package.metadata
    if expression := said.get_all("License-Expression"):
        return str(expression[0])
    classified = [one.rpartition(" :: ")[2] for one in said.get_all("Classifier") or () if one.startswith("License ::")]
    text = "".join(said.get_all("License") or ())
    return " AND ".join(classified) or (text or "see its text").splitlines()[0]


def bill(whole: Component, components: Iterable[Component]) -> str:
    """The bill of materials of a package. whole: the package itself.

    It has no time and no random number in it: the same components make the same bill.
    """
    listed = list({one.purl: one for one in components if one.purl != whole.purl}.values())
    known = {whole.purl, *(one.purl for one in listed)}
    # What nothing else names is the package's own.
    roots = known - {need for one in listed for need in one.needs} - {whole.purl}
    needs = {whole.purl: sorted(roots | {*whole.needs})} | {one.purl: list(one.needs) for one in listed}
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "application", **_entry(whole)}},
        "components": [{"type": "library", **_entry(one)} for one in listed],
        "dependencies": [
            {"ref": ref, "dependsOn": [one for one in wanted if one in known]} for ref, wanted in needs.items()
        ],
    }
    digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
    serial = uuid.uuid5(uuid.NAMESPACE_URL, f"{whole.purl}#{digest}")
    return json.dumps(document | {"serialNumber": f"urn:uuid:{serial}"}, indent=1, sort_keys=True) + "\n"


def _entry(one: Component) -> dict[str, Any]:
    entry: dict[str, Any] = {"bom-ref": one.purl, "name": one.name, "version": one.version, "purl": one.purl}
    if re.fullmatch(r"[\w.+-]+( (OR|AND|WITH) [\w.+-]+)*", one.licence):
        entry["licenses"] = [{"expression": one.licence}]
    else:
        entry["licenses"] = [{"license": {"name": one.licence}}]
    return entry | ({"hashes": [{"alg": "SHA-256", "content": one.sha256}]} if one.sha256 else {})


def licence_texts(components: Sequence[Component]) -> str:
    """What is linked in, under which licence, and the text of each, written once."""
    texts: dict[str, list[str]] = {}
    for one in components:
        for path in one.texts:
            if path.exists():
                text = path.read_text(encoding="utf-8", errors="replace").strip()
                texts.setdefault(text, []).append(f"{one.name} {one.version}: {path.name}")
    without = [one for one in components if not any(path.exists() for path in one.texts)]
    return "\n".join(_licence_lines(components, texts, without)) + "\n"


def _licence_lines(
    components: Sequence[Component], texts: dict[str, list[str]], without: Sequence[Component]
) -> Iterator[str]:
    width = max(len(f"{one.name} {one.version}") for one in components)
    yield "latlab-agent is one static program. This is linked into it:\n"
    for one in components:
        yield f"{one.name} {one.version}".ljust(width) + f"  {one.licence}"
    yield (
        "\nThe C library is the GNU C Library, under the LGPL. To link the agent with another version of it, build\n"
        "the agent from the source archive of this version: `make agents`."
    )
    if without:
        yield f"\nPublished without a licence text: {', '.join(one.name for one in without)}."
    for text, owners in texts.items():
        yield f"\n{'=' * 100}\n" + "\n".join(owners) + f"\n{'=' * 100}\n\n{text}"
