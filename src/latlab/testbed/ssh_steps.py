"""What every machine reached over ssh needs before it is used: root, programs, a connection that stays, our agent."""

from __future__ import annotations

import hashlib
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path, PurePosixPath

from latlab.hosts import MACHINE, RemoteHost
from latlab.model.errors import LabError
from latlab.testbed.agent_binary import AGENT, no_agent
from latlab.testbed.agent_copy import agent_copy
from latlab.testbed.images import file_digest
from latlab.testbed.site import Site
from latlab.testbed.step import Argv, Check, Service, Step

CONNECTED_MS = 20_000
COPIED_S = 600
"""An image of 75 MB, over a connection of 1 Mbit/s."""

TOOLS = ("cat", "date", "gzip", "ip", "ping", "sha256sum", "sysctl", "tail")
"""The programs that latlab runs on every such machine."""

MISSING = 'for tool; do command -v "$tool" >/dev/null || echo "$tool"; done'

QUIET = (
    "the shell there prints this when it starts: make its start-up files (`.bashrc`, `/etc/profile.d`) and sshd's "
    "ForceCommand print nothing in non-interactive shells, for example with `case $- in *i*) ;; *) return;; esac`"
)

COPY = 'there=$1 put=$2; shift 2; "$@" "$there" || sh -c "$0" | "$@" "$put"'
THERE = 'echo "$0  $1" | sha256sum -c >/dev/null 2>&1'
PUT = 'mkdir -p -m 755 "${0%/*}" && gzip -dc >"$0.$$" && chmod 755 "$0.$$" && mv "$0.$$" "$0"'
"""What comes, packed, is where it is to be: whole or not at all."""
THERE_OR_ANOTHERS = f'test "$(uname -m)" != "$2" || {THERE}'
"""The same where that is for machines of one architecture: the others have nothing to get."""
IS_THERE = 'uname -m; sha256sum "$0"'
RUNS = '"$0" --version 2>/dev/null || cat /proc/mounts'
CLOCK_S = 60.0
"""So far a machine's clock may be from this one's: a file's time is right to about as much."""
THE_TIME = "the time"
FOUND, RIGHT = "there is one", "the agent for its architecture"


def reached(host: RemoteHost, at: str, site: Site) -> Iterator[Step | Service]:
    """Its shell is quiet and lets root in, a connection is kept open, and it has the programs. at: the ssh client's."""
    name = host.name
    # What else a command prints there would be read as its answer.
    quiet = Check(("true",), expected="", remedy=QUIET)
    yield Step(name, f"{name} has a login shell that prints nothing", (), check=quiet)
    yield Step(name, f"{name} allows root to log in", (), check=Check(("id", "-u"), expected="0"))
    yield Service(
        host=at,
        title=f"keep a connection to {name} open",
        argv=host.keep_open(),
        log=site.log(f"{name}-ssh"),
        ready=Check(("stat", "-c", "%F", host.control or ""), expected="socket", within_ms=CONNECTED_MS),
    )
    programs = Check(("sh", "-c", MISSING, "sh", *TOOLS), expected="none is missing", read=_missing)
    yield Step(name, f"{name} has the programs that a run needs", (), check=programs)


def agent_put(host: RemoteHost, site: Site) -> Iterator[Step]:
    """The agent for its architecture is there, at the path of the host's agent. site: this machine's.

    Which architecture that is, is looked at before anything is changed there.
    """
    assert host.agent
    agents = site.all_agents
    found = Check(("uname", "-m"), FOUND, read=partial(_agent_found, agents, host.name))
    yield Step(host.name, f"{host.name} has an architecture with an agent", (), check=found)
    digests = {architecture: agent_digest(agent) for architecture, agent in agents.items()}
    packed = {one: (sys.executable, "-m", "latlab.testbed.agent_copy", agent) for one, agent in agents.items()}
    if len(agents) == 1:
        ((architecture, digest),) = digests.items()
        yield _put(host, "the agent", packed[architecture], digest, host.agent)
        return
    is_there = Check(host.command(("sh", "-c", IS_THERE, host.agent)), RIGHT, read=partial(_which, digests))
    for number, (architecture, digest) in enumerate(digests.items(), start=1):
        yield Step(
            host=MACHINE,
            title=f"copy the agent for {architecture} to {host.name}, if it is missing",
            do=_copied(
                host,
                packed[architecture],
                ("sh", "-c", THERE_OR_ANOTHERS, digest, host.agent, architecture),
                host.agent,
            ),
            check=is_there if number == len(digests) else None,
            within_s=COPIED_S,
        )


def agent_runs(host: RemoteHost) -> Step:
    """A check that the agent there can be run: where it lies, programs may not be allowed."""
    assert host.agent
    runs = Check(("sh", "-c", RUNS, host.agent), AGENT, read=partial(_runs, host.name, host.agent))
    return Step(host.name, f"the agent can be run on {host.name}", (), check=runs)


def clock_shows_the_time(name: str) -> Step:
    """A check of the machine's clock; one without a battery stands at 1970. No figure depends on it: a finding."""
    shows = Check(("date", "-u", "+%s"), THE_TIME, read=lambda said: _time_shown(float(said), time.time()))
    return Step(name, f"the clock of {name} shows the time, to {CLOCK_S:.0f} s", (), check=shows, optional=True)


def clock_apart(stands_at_s: float, now_s: float) -> str:
    """What a clock shows, and how far from the time: `1970-01-01 00:01:30 UTC, 5 s before here`; s since the epoch."""
    shown = datetime.fromtimestamp(stands_at_s, UTC).strftime("%Y-%m-%d %H:%M:%S")
    apart_s = stands_at_s - now_s
    near = abs(apart_s) <= CLOCK_S
    return f"{shown} UTC" + ("" if near else f", {abs(apart_s):.0f} s {'before' if apart_s < 0 else 'after'} here")


def agents_digest(site: Site) -> str:
    """SHA-256 of what a machine may get: of its agent, where there are agents for one architecture only."""
    digests = [agent_digest(agent) for agent in site.all_agents.values()]
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def file_put(host: RemoteHost, what: str, source: Path, target: str) -> Step:
    """A file of this machine is there, byte by byte."""
    digest = file_digest(source) if source.exists() else f"SHA256-OF-{source.name}"
    return _put(host, what, ("gzip", "-c1", str(source)), digest, target)


def _put(host: RemoteHost, what: str, packed: Argv, digest: str, target: str) -> Step:
    """packed: the command that prints the file, compressed."""
    return Step(
        host=MACHINE,
        title=f"copy {what} to {host.name}, if it is missing",
        do=_copied(host, packed, ("sh", "-c", THERE, digest, target), target),
        check=Check(host.command(("sha256sum", target)), expected=digest, read=_first_word),
        within_s=COPIED_S,
    )


def _copied(host: RemoteHost, packed: Argv, there: Argv, target: str) -> Argv:
    """The command that copies what `packed` prints, unless `there` ends well on the host."""
    put = shlex.join(("sh", "-c", PUT, target))
    return ("sh", "-c", COPY, shlex.join(packed), shlex.join(there), put, *host.prefix())


def _agent_found(agents: Mapping[str, str], name: str, said: str) -> str:
    """Read what `uname -m` prints on the machine of that name. LabError: why none of the agents can be run there."""
    if problem := no_agent(said.strip(), agents):
        raise LabError(problem.what, where=name, remedy=problem.remedy)
    return FOUND


def _runs(name: str, agent: str, said: str) -> str:
    """Read what RUNS prints. LabError: the agent cannot be run, and why."""
    if said.startswith(f"{AGENT} "):
        return AGENT
    point, options = mount_of(agent, said.splitlines())
    if "noexec" in options:
        what = f"{agent} cannot be run: {point} is mounted noexec"
        raise LabError(what, where=name, remedy=f"`mount -o remount,exec {point}` there")
    raise LabError(f"{agent} cannot be run", where=name, remedy=f"try `{agent} --version` there")


def mount_of(path: str, mounts: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The mount point that the path is below, and its options. mounts: lines of /proc/mounts, later ones on top."""
    above = {str(one) for one in (PurePosixPath(path), *PurePosixPath(path).parents)}
    found: tuple[str, tuple[str, ...]] = ("/", ())
    for line in mounts:
        _, point, _, options, *_ = (*line.split(), "", "", "", "")
        if point in above and len(point) >= len(found[0]):
            found = (point, tuple(options.split(",")))
    return found


def _time_shown(stands_at_s: float, now_s: float) -> str:
    """THE_TIME, or what the clock shows and what to do."""
    if abs(stands_at_s - now_s) <= CLOCK_S:
        return THE_TIME
    return f"{clock_apart(stands_at_s, now_s)}: set it, by chrony, ntpd or `date -s`"


def _which(digests: Mapping[str, str], said: str) -> str:
    """Read what IS_THERE prints: whether the file is the agent for the machine's architecture."""
    architecture, digest = said.split()[:2]
    if digests.get(architecture) == digest:
        return RIGHT
    others = [one for one, known in digests.items() if known == digest]
    return f"the agent for {others[0]}" if others else f"a file of SHA-256 {digest}"


def agent_digest(agent: str) -> str:
    """SHA-256 of what is copied; in a plan for a machine that has no agent, what it would be."""
    path = Path(agent)
    return _digest_at(path, path.stat().st_mtime_ns) if path.exists() else f"SHA256-OF-{path.name}"


def _missing(output: str) -> str:
    return ", ".join(output.split()) + " missing" if output.strip() else "none is missing"


def _first_word(output: str) -> str:
    return output.split()[0]


@cache
def _digest_at(path: Path, _mtime_ns: int) -> str:
    return hashlib.sha256(agent_copy(path)).hexdigest()
