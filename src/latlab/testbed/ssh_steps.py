"""What every machine reached over ssh needs before it is used: root, programs, a connection that stays, our agent."""

from __future__ import annotations

import hashlib
import shlex
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from latlab.hosts import MACHINE, SshHost
from latlab.testbed.agent_copy import agent_copy
from latlab.testbed.images import file_digest
from latlab.testbed.service import Service
from latlab.testbed.site import Site
from latlab.testbed.step import Argv, Check, Step

CONNECTED_MS = 20_000

TOOLS = ("cat", "date", "gzip", "ip", "ping", "sha256sum", "sysctl", "tail")
"""The programs that latlab runs on every such machine."""

MISSING = 'for tool; do command -v "$tool" >/dev/null || echo "$tool"; done'

QUIET = (
    "the shell there prints this by itself: make its start-up files (`.bashrc`, `/etc/profile.d`) and sshd's "
    "ForceCommand print nothing where nobody types, as with `case $- in *i*) ;; *) return;; esac`"
)

COPY = 'there=$1 put=$2; shift 2; "$@" "$there" || sh -c "$0" | "$@" "$put"'
THERE = 'echo "$0  $1" | sha256sum -c >/dev/null 2>&1'
PUT = 'mkdir -p -m 755 "${0%/*}" && gzip -dc >"$0.$$" && chmod 755 "$0.$$" && mv "$0.$$" "$0"'
"""What comes, packed, is where it is to be: whole or not at all."""


def reached(host: SshHost, at: str, site: Site) -> Iterator[Step | Service]:
    """Its shell is quiet and lets root in, a connection is kept open, and it has the programs. at: the ssh client's."""
    name = host.name
    # What else a command prints there would be read as its answer.
    quiet = Check(("true",), expected="", remedy=QUIET)
    yield Step(name, f"{name} is reached by a shell that prints nothing of its own", (), check=quiet)
    yield Step(name, f"{name} lets root in", (), check=Check(("id", "-u"), expected="0"))
    yield Service(
        host=at,
        title=f"keep a connection to {name} open",
        argv=host.keep_open(),
        log=site.log(f"{name}-ssh"),
        ready=Check(("stat", "-c", "%F", host.control or ""), expected="socket", within_ms=CONNECTED_MS),
    )
    programs = Check(("sh", "-c", MISSING, "sh", *TOOLS), expected="none is missing", read=_missing)
    yield Step(name, f"{name} has the programs that are run there", (), check=programs)


def agent_put(host: SshHost, site: Site) -> Step:
    """Our agent is there, at the path that the host's agent has; site: this machine's."""
    assert host.agent
    packed = (sys.executable, "-m", "latlab.testbed.agent_copy", site.agent)
    return _put(host, "the agent", packed, agent_digest(site.agent), host.agent)


def file_put(host: SshHost, what: str, source: Path, target: str) -> Step:
    """A file of this machine is there, byte by byte."""
    digest = file_digest(source) if source.exists() else f"SHA256-OF-{source.name}"
    return _put(host, what, ("gzip", "-c1", str(source)), digest, target)


def _put(host: SshHost, what: str, packed: Argv, digest: str, target: str) -> Step:
    """packed: the command that prints the file, compressed."""
    there = shlex.join(("sh", "-c", THERE, digest, target))
    put = shlex.join(("sh", "-c", PUT, target))
    return Step(
        host=MACHINE,
        title=f"copy {what} to {host.name}, unless it is there",
        do=("sh", "-c", COPY, shlex.join(packed), there, put, *host.prefix()),
        check=Check(host.command(("sha256sum", target)), expected=digest, read=_first_word),
    )


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
