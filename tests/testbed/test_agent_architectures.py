"""Which agent a machine gets that is reached over ssh: the one for its own architecture, or the reason why none."""

from __future__ import annotations

import asyncio
import os
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from latlab import __version__
from latlab.hosts import RemoteHost
from latlab.model.errors import LabError
from latlab.testbed import agent_binary
from latlab.testbed.agent_binary import agent_lines, architecture_of, find_agent, find_agents, no_agent
from latlab.testbed.agent_copy import agent_copy
from latlab.testbed.machine import assumed_machine
from latlab.testbed.site import Site
from latlab.testbed.ssh_steps import COPIED_S, agent_put, agents_digest
from latlab.testbed.step import Step

X86_64, AARCH64, ARM = 62, 183, 40
THERE = """\
#!/bin/sh
# The last word is the command; it is run as on the machine that MACHINE says.
for last; do :; done
PATH=$STANDINS:$PATH exec sh -c "$last"
"""
UNAME = "#!/bin/sh\necho $MACHINE\n"


def elf(machine: int, content: bytes = b"", *, order: str = "<") -> bytes:
    """A program of one segment, as elf(5) has it."""
    whole = 64 + 56 + len(content)
    identity = b"\x7fELF" + bytes([2, 1 if order == "<" else 2, 1]) + bytes(9)
    header = struct.pack(f"{order}HHIQQQIHHHHHH", 2, machine, 1, 0, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    segment = struct.pack(f"{order}IIQQQQQQ", 1, 5, 0, 0, 0, whole, whole, 4096)
    return identity + header + segment + content


def agent(folder: Path, architecture: str, version: str = __version__, *, name: str = "") -> Path:
    """An agent's file that says what it is, and cannot be run."""
    machine = {"x86_64": X86_64, "aarch64": AARCH64}[architecture]
    path = folder / (name or f"latlab-agent-{architecture}")
    # Texts stand side by side in a binary, without a break between them.
    path.write_bytes(elf(machine, f"{version}{version}, built for {architecture}".encode()))
    path.chmod(0o755)
    return path


@pytest.fixture
def on_x86(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine is an x86-64."""
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "lab", "6.12", "#1", "x86_64")))


@pytest.fixture
def standins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose `ssh` runs commands here, where uname says what $MACHINE does."""
    folder = tmp_path / "standins"
    folder.mkdir()
    for name, text in (("ssh", THERE), ("uname", UNAME)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def test_an_agent_says_what_it_is_built_for(tmp_path: Path) -> None:
    path = tmp_path / "agent"
    for content, expected in (
        (elf(X86_64), "x86_64"),
        (elf(AARCH64), "aarch64"),
        (elf(AARCH64, order=">"), "aarch64"),
        (elf(ARM), "a machine of ELF's number 40"),
        (b"#!/bin/sh\nexec cat\n", None),
        (b"", None),
    ):
        path.write_bytes(content)
        assert architecture_of(path) == expected
    assert architecture_of(tmp_path / "none") is None


def test_the_agent_in_use_says_its_version_and_what_it_is_built_for() -> None:
    own = find_agent()
    assert architecture_of(own) == os.uname().machine
    assert f"{__version__}, built for {os.uname().machine}".encode() in own.read_bytes()


@pytest.mark.usefixtures("on_x86")
def test_an_agent_of_another_architecture_is_none_for_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = agent(tmp_path, "aarch64")
    monkeypatch.setenv("LATLAB_AGENT", str(path))
    with pytest.raises(LabError) as caught:
        find_agent()
    assert caught.value.what == f"{path} is built for aarch64, and this machine is x86_64"
    assert "LATLAB_AGENT" in caught.value.remedy


@pytest.mark.usefixtures("on_x86")
def test_agents_for_other_machines_are_next_to_this_machines_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    own = agent(tmp_path, "x86_64", name="latlab-agent")
    assert find_agents(own) == {"x86_64": str(own)}
    other = agent(tmp_path, "aarch64")
    assert find_agents(own) == {"x86_64": str(own), "aarch64": str(other)}


@pytest.mark.usefixtures("on_x86")
def test_agents_in_the_package_serve_where_none_is_next_to_python(
    tmp_path: Path, on_x86: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged = tmp_path / "agents"
    packaged.mkdir()
    own, other = agent(packaged, "x86_64"), agent(packaged, "aarch64")
    monkeypatch.setattr(agent_binary, "PACKAGED", packaged)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin/python"))
    monkeypatch.delenv("LATLAB_AGENT", raising=False)
    assert find_agent() == own
    assert find_agents(own) == {"x86_64": str(own), "aarch64": str(other)}
    named = agent(tmp_path, "x86_64", name="mine")
    monkeypatch.setenv("LATLAB_AGENT", str(named))
    assert find_agents(find_agent()) == {"x86_64": str(named), "aarch64": str(other)}


def test_each_agent_is_listed_with_its_version_and_path(
    tmp_path: Path, on_x86: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, other = agent(tmp_path, "x86_64", name="latlab-agent"), agent(tmp_path, "aarch64", "0.0.1")
    monkeypatch.setenv("LATLAB_AGENT", str(own))
    assert agent_lines() == [
        f"agent for x86_64: {__version__}, {own}",
        f"agent for aarch64: another version, {other}",
    ]
    monkeypatch.setenv("LATLAB_AGENT", str(tmp_path / "nothing"))
    (line,) = agent_lines()
    assert line.startswith("no agent: ") and "LATLAB_AGENT" in line


def test_a_machine_without_an_agent_for_it_is_refused_by_its_name(tmp_path: Path) -> None:
    own = {"x86_64": str(agent(tmp_path, "x86_64"))}
    for architecture, what, remedy in (
        ("aarch64", "it is aarch64, and there is no agent for aarch64 here", "`make agents`"),
        ("armv7l", "it is armv7l, which is 32-bit ARM", "64-bit kernel"),
        ("armv6l", "32-bit ARM", "64-bit kernel"),
        ("armv8l", "32-bit ARM", "64-bit kernel"),
        ("aarch64_be", "it is aarch64_be, which is big-endian", "little-endian kernel"),
        ("armeb", "big-endian", "little-endian kernel"),
        ("armv7b", "big-endian", "little-endian kernel"),
        ("riscv64", "it is riscv64; there are agents for x86_64 and aarch64", "one of these"),
    ):
        problem = no_agent(architecture, own)
        assert problem, architecture
        assert what in problem.what
        assert remedy in problem.remedy
    assert no_agent("x86_64", own) is None


@pytest.mark.usefixtures("on_x86")
def test_an_agent_of_another_version_or_architecture_is_refused_before_it_is_copied(tmp_path: Path) -> None:
    assert no_agent("aarch64", {"aarch64": str(agent(tmp_path, "aarch64"))}) is None
    older = no_agent("aarch64", {"aarch64": str(agent(tmp_path, "aarch64", "0.0.1"))})
    assert older
    assert older.what.endswith(f"is not of this latlab's version, {__version__}")
    wrong = no_agent("aarch64", {"aarch64": str(agent(tmp_path, "x86_64"))})
    assert wrong
    assert wrong.what.endswith("is built for x86_64")
    assert {older.remedy, wrong.remedy} == {"`make agents`"}


def steps_of(site: Site, target: Path, monkeypatch: pytest.MonkeyPatch, standins: Path) -> list[Step]:
    monkeypatch.setenv("STANDINS", str(standins))
    monkeypatch.setenv("PATH", f"{standins}:{os.environ['PATH']}")
    return list(agent_put(RemoteHost("board1", "board1", agent=str(target)), site))


def done(steps: Sequence[Step], machine: str, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What is expected of each step's check and what is read, after the steps were done on such a machine."""
    monkeypatch.setenv("MACHINE", machine)

    async def run(argv: Sequence[str]) -> str:
        process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
        said, _ = await process.communicate()
        assert process.returncode == 0, argv
        return said.decode()

    async def each() -> list[tuple[str, str]]:
        read = []
        for step in steps:
            if step.do:
                await run(step.do)
            if step.check:
                # The first one is asked on the machine itself.
                argv = step.check.argv if step.do else ("ssh", " ".join(step.check.argv))
                read.append((step.check.expected, step.check.read(await run(argv))))
        return read

    return asyncio.run(each())


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_each_machine_gets_the_agent_for_its_architecture(
    machine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, standins: Path
) -> None:
    agents = {architecture: str(agent(tmp_path, architecture)) for architecture in ("x86_64", "aarch64")}
    target = tmp_path / "there" / "agent"
    site = Site("abcd", assumed_machine(), agent=agents["x86_64"], agents=agents)
    steps = steps_of(site, target, monkeypatch, standins)
    # Over a slow line that takes longer than other commands may.
    assert {step.within_s for step in steps if step.do} == {COPIED_S}
    read = done(steps, machine, monkeypatch)
    assert all(expected == actual for expected, actual in read), read
    assert target.read_bytes() == agent_copy(Path(agents[machine]))
    before = target.stat().st_ino
    done(steps, machine, monkeypatch)
    assert target.stat().st_ino == before, "it was copied twice"


def test_a_machine_that_no_agent_is_for_is_refused_by_the_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, standins: Path
) -> None:
    own = agent(tmp_path, "x86_64")
    site = Site("abcd", assumed_machine(), agent=str(own))
    steps = steps_of(site, tmp_path / "there" / "agent", monkeypatch, standins)
    assert not steps[0].do
    with pytest.raises(LabError) as caught:
        done(steps, "aarch64", monkeypatch)
    assert (caught.value.where, caught.value.remedy) == ("board1", "`make agents`")
    assert not (tmp_path / "there").exists()


def test_where_there_are_agents_for_one_architecture_the_agents_own_digest_names_it(tmp_path: Path) -> None:
    own, other = agent(tmp_path, "x86_64"), agent(tmp_path, "aarch64")
    alone = agents_digest(Site("abcd", assumed_machine(), agent=str(own)))
    both = agents_digest(
        Site("abcd", assumed_machine(), agent=str(own), agents={"x86_64": str(own), "aarch64": str(other)})
    )
    assert alone == agents_digest(Site("abcd", assumed_machine(), agent=str(own), agents={"x86_64": str(own)}))
    assert both != alone
