"""Where the agents' binaries are: this machine's, and those for machines of other architectures."""

from __future__ import annotations

import os
import re
import shutil
import struct
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import latlab
from latlab import __version__
from latlab.model.errors import LabError
from latlab.testbed.architecture import ARCHITECTURES, BY_DEBIAN

AGENT = "latlab-agent"
BUILD = "`make build`"
BUILD_ALL = "`make agents`"

PACKAGED = Path(latlab.__file__).parent / "agents"
"""Where a wheel has them (tools/package.py), each with its architecture at the end of its name."""

_MAGIC = b"\x7fELF"
_MACHINE_AT = 18
_LITTLE_ENDIAN = 1
_BIG_ENDIAN = re.compile(r".*_be|.*eb|armv\d+b")
_ARM_32 = re.compile(r"arm.*")


def find_agent() -> Path:
    """The agent's path: `$LATLAB_AGENT`, else beside this Python, else in the package, else on the PATH.

    LabError: there is none, or it is built for another architecture than this machine's.
    """
    named = os.environ.get("LATLAB_AGENT")
    beside = Path(sys.executable).parent / AGENT
    packaged = PACKAGED / f"{AGENT}-{os.uname().machine}"
    there = next((path for path in (beside, packaged) if path.exists()), None)
    candidate = named or there or shutil.which(AGENT)
    if candidate and os.access(candidate, os.X_OK) and Path(candidate).is_file():
        path = Path(candidate).absolute()
        here = os.uname().machine
        if (built_for := architecture_of(path)) and built_for != here:
            what = f"{path} is built for {built_for}, and this machine is {here}"
            raise LabError(what, remedy="correct or unset LATLAB_AGENT" if named else BUILD)
        return path
    if named:
        raise LabError(f"LATLAB_AGENT names {named}, which is not a program", remedy="correct it, or unset it")
    raise LabError(f"{AGENT} is neither next to {sys.executable}, nor in the package, nor on the PATH", remedy=BUILD)


def find_agents(own: Path) -> dict[str, str]:
    """The path of an agent for each architecture that there is one for here: this machine's own, then the others.

    Those for others are beside it, in the package or on the PATH, with the architecture at the end of their names.
    """
    found = {os.uname().machine: str(own)}
    for architecture in ARCHITECTURES:
        name = f"{AGENT}-{architecture}"
        there = next((path for path in (own.with_name(name), PACKAGED / name) if path.exists()), None)
        path = str(there) if there else shutil.which(name)
        if path:
            found.setdefault(architecture, path)
    return found


def agent_lines() -> list[str]:
    """Each agent that there is here, as `latlab --version` prints it: its architecture, version and path."""
    try:
        agents = find_agents(find_agent())
    except LabError as error:
        return [f"no agent: {error}"]
    versions = {path: __version__ if is_of_this_version(Path(path)) else "another version" for path in agents.values()}
    return [f"agent for {architecture}: {versions[path]}, {path}" for architecture, path in agents.items()]


def agent_for(architecture: str) -> Path:
    """The path of the agent for an image. architecture: Debian's name of it; empty: this machine's.

    LabError: there is none here, or not of this version.
    """
    own = find_agent()
    wanted = BY_DEBIAN[architecture].name if architecture else os.uname().machine
    if wanted == os.uname().machine:
        return own
    agents = find_agents(own)
    if problem := no_agent(wanted, agents):
        raise LabError(problem.what.replace("it is", "the image is for", 1), remedy=problem.remedy)
    return Path(agents[wanted])


def architecture_of(agent: Path) -> str | None:
    """The architecture that an agent is built for, as uname(2) names it; None: it is no binary, or cannot be read."""
    try:
        with agent.open("rb") as file:
            header = file.read(_MACHINE_AT + 2)
    except OSError:
        return None
    if len(header) < _MACHINE_AT + 2 or not header.startswith(_MAGIC):
        return None
    order = "<" if header[5] == _LITTLE_ENDIAN else ">"
    (machine,) = struct.unpack_from(f"{order}H", header, _MACHINE_AT)
    names = {one.elf: one.name for one in ARCHITECTURES.values()}
    return names.get(machine, f"a machine of ELF's number {machine}")


def no_agent(architecture: str, agents: Mapping[str, str]) -> LabError | None:
    """Why no agent can be run on a machine of that architecture; None: the one in `agents` can.

    architecture: as uname(2) names it. agents: what find_agents found.
    """
    if path := agents.get(architecture):
        return _unfit(Path(path), architecture, is_own=architecture == os.uname().machine)
    if architecture in ARCHITECTURES:
        return LabError(f"it is {architecture}, and there is no agent for {architecture} here", remedy=BUILD_ALL)
    there_are = f"there are agents for {' and '.join(ARCHITECTURES)}"
    if _BIG_ENDIAN.fullmatch(architecture):
        what = f"it is {architecture}, which is big-endian; {there_are}, both little-endian"
        return LabError(what, remedy="a little-endian kernel there")
    if _ARM_32.fullmatch(architecture):
        what = f"it is {architecture}, which is 32-bit ARM; {there_are}"
        return LabError(what, remedy="a 64-bit kernel there (aarch64), if its processor has 64 bits")
    return LabError(f"it is {architecture}; {there_are}", remedy="a machine of one of these")


def _unfit(agent: Path, architecture: str, *, is_own: bool) -> LabError | None:
    """Why that agent does not serve; this machine's own is whatever the user says it is."""
    built_for = architecture_of(agent)
    if is_own or not agent.exists():
        return None
    if built_for != architecture:
        what = f"it is {architecture}, and {agent} is built for {built_for or 'none: it is not an executable'}"
        return LabError(what, remedy=BUILD_ALL)
    if not is_of_this_version(agent):
        what = f"the agent for {architecture}, {agent}, is not of this latlab's version, {__version__}"
        return LabError(what, remedy=BUILD_ALL)
    return None


def is_of_this_version(agent: Path) -> bool:
    """Whether the agent says in its file that it is of this latlab's version: not every machine can run it."""
    return _has_version(agent, agent.stat().st_mtime_ns)


@cache
def _has_version(agent: Path, _mtime_ns: int) -> bool:
    """Whether this version is in it. What precedes that in the file has no terminator."""
    return f"{__version__}, built for ".encode() in agent.read_bytes()
