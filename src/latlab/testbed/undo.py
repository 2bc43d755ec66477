"""Taking back what a journal lists: at the end of a run, or after one that died."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

from latlab.hosts import Host, host_from
from latlab.model.errors import LabError, UnreachedError, file_remedy
from latlab.testbed.journal import Journal, ProcessRecord, Record, UndoRecord, stale_journals

HostOf = Callable[[Record], Host]
End = Callable[[Host, ProcessRecord], Awaitable[bool]]


def described_host(record: Record) -> Host:
    """The host as the record describes it."""
    return host_from(record.host)


async def end_marked(host: Host, record: ProcessRecord) -> bool:
    """Whether any process carried the record's mark; none does any more."""
    return await end_process(host, record.mark)


async def undo_journal(
    journal: Journal, host_of: HostOf = described_host, end: End = end_marked, *, own: bool = False
) -> tuple[list[str], list[LabError]]:
    """What was undone, in words, and what could not be: a failure does not keep the rest from it.

    A command of the lab may still run that died over it, or gave it up on a machine far away: its end is waited for
    before anything is undone there. own: it is the lab's own journal, whose commands on this machine have all ended.
    end: how a journalled process is ended. A machine that is not reached is asked once, and no more: one UnreachedError
    reports how much is left there.
    """
    words: list[str] = []
    failures: list[LabError] = []
    unreached: dict[str, UnreachedError] = {}
    left: Counter[str] = Counter()
    settled: set[tuple[str, str]] = set()
    for record in journal.pending():
        try:
            host = host_of(record)
            machine = host.ways[-1].name
            left[machine] += 1
            if machine in unreached:
                continue
            if isinstance(record, UndoRecord) and record.mark and not (own and len(host.ways) == 1):
                if (machine, record.mark) not in settled:
                    await settle_commands(host, record.mark)
                settled.add((machine, record.mark))
            if await _undo(record, host, end):
                words.append(f"{host.name}: {record.title}")
            journal.undone(record.n)
            left[machine] -= 1
        except UnreachedError as error:
            unreached[machine] = error
        except LabError as error:
            failures.append(error)
    return words, failures + [_left(error, left[machine]) for machine, error in unreached.items()]


def _left(error: UnreachedError, count: int) -> UnreachedError:
    what = f"{error.what}; {count} change{'s' if count > 1 else ''} to be undone there"
    return UnreachedError(what, where=error.where, remedy=error.remedy)


async def clean_stale(*, leave_unreached: bool = False) -> list[str]:
    """What dead runs had left and is now undone, in words; empty when nothing was left.

    Living runs are not touched. LabError lists all that could not be undone; it stays in its journal. leave_unreached:
    what is left on a machine that is not reached, and what of a journal cannot be read, is no failure, and among the
    words.
    """
    words: list[str] = []
    failures: list[LabError] = []
    for journal in stale_journals():
        try:
            undone, failed = await undo_journal(journal)
        finally:
            journal.close()
        words += [f"run {journal.run}: {line}" for line in undone]
        if journal.unread and leave_unreached:
            words.append(f"run {journal.run}: {journal.unread}")
        elif journal.unread:
            failures.append(journal.unread)
        gone = [failure for failure in failed if leave_unreached and isinstance(failure, UnreachedError)]
        words += [f"run {journal.run}: {failure}" for failure in gone]
        failures += [failure for failure in failed if failure not in gone]
    raise_together("the clean-up is not complete", failures)
    return words


def raise_together(what: str, failures: list[LabError]) -> None:
    """Raise one LabError that lists all failures; do nothing without any."""
    if failures:
        raise LabError(
            f"{what}: " + "; ".join(str(failure) for failure in failures),
            remedy="fix these problems, then run `latlab clean`",
        )


async def _undo(record: Record, host: Host, end: End) -> bool:
    """Whether there was something to undo."""
    if isinstance(record, ProcessRecord):
        return await end(host, record)
    if record.present is not None and (await host.run(record.present, check=False)).returncode != 0:
        return False
    if record.rescue:
        there, here = record.rescue
        await rescue(host, there, Path(here))
    try:
        await host.run(record.undo, env={MARK: record.mark} if record.mark else None)
    except LabError:
        if not await host.is_gone():
            raise
        return False
    return True


# Ending what a dead lab left running, known by the mark in its environment, and never anything else.


MARK = "LATLAB_PROCESS"
"""The variable in the environment of every process of a test bed, and so of its children; its value is random."""

TERM_POLLS = 100
KILL_POLLS = 200
POLL_S = 0.02

# An entry of an environment ends with a zero byte: the whole entry must be the mark, or it is another process's.
SIGNAL = """
found=$(grep -lszxF -e "$0" /proc/[0-9]*/environ)
[ $? -le 2 ] || exit 1
for at in $found; do pid=${at#/proc/}; pid=${pid%/environ}; kill -s "$1" "$pid" && echo "$pid"; done; :
"""
PASSING_POLLS = 250
"""How many times 20 ms a command has to finish on its own."""

LOOK = "0"  # the signal that is none


async def end_process(host: Host, mark: str) -> bool:
    """Whether any process carried the mark, on the host or on the path to it; all that did have ended.

    LabError when even SIGKILL fails, or a machine is not reached.
    """
    return any([await _end_on(machine, mark) for machine in host.ways])


async def settle_commands(host: Host, mark: str) -> None:
    """Wait until no process carries the mark, of the host's own or on the way to it; end those that take long.

    LabError as `end_process`.
    """
    for machine in host.ways:
        for _ in range(PASSING_POLLS):
            if not await _carried(machine, mark, LOOK):
                break
            await machine.pause(POLL_S)
        else:
            await _end_on(machine, mark)


async def _end_on(machine: Host, mark: str) -> bool:
    if not await _carried(machine, mark, LOOK):
        return False
    for signal, again, polls in (("TERM", LOOK, TERM_POLLS), ("KILL", "KILL", KILL_POLLS)):
        await _signal(machine, mark, signal)
        for _ in range(polls):
            if not await _carried(machine, mark, again):
                return True
            await machine.pause(POLL_S)
    left = ", ".join(await _signal(machine, mark, LOOK))
    raise LabError(
        f"process {left} did not end, even after SIGKILL",
        where=machine.name,
        remedy="the kernel holds it: `dmesg`, and /proc/PID/stack there; then latlab clean",
    )


async def _carried(machine: Host, mark: str, signal: str) -> bool:
    """Whether any process carries the mark; it has been sent the signal."""
    if await _signal(machine, mark, signal):
        return True
    # One that is just becoming another program (execve) has no environment for an instant.
    await machine.pause(POLL_S)
    return bool(await _signal(machine, mark, signal))


async def _signal(machine: Host, mark: str, signal: str) -> list[str]:
    """The pids of the processes that carry the mark and have been sent the signal."""
    return (await machine.run(("sh", "-c", SIGNAL, f"{MARK}={mark}", signal))).stdout.split()


# Bringing home what a host recorded while it could not be reached.


WITHIN_S = 300.0
LARGER = 'cd "$0" && for file in *.arrow; do [ -f "$file" ] && wc -c "$file"; done; :'


async def rescue(host: Host, there: str, here: Path) -> list[str]:
    """The names of the recordings that were copied: those of `there` that are larger than what is `here`.

    LabError: they cannot be copied; nothing is lost there.
    """
    copied = []
    for line in (await host.run(("sh", "-c", LARGER, there))).stdout.splitlines():
        size, name = line.split(maxsplit=1)
        local = here / name
        if not here.is_dir() or (local.exists() and local.stat().st_size >= int(size)):
            continue
        part = local.with_name(f"{name}.part")
        try:
            with part.open("wb") as file:
                await host.run(("cat", f"{there}/{name}"), output=file.fileno(), timeout_s=WITHIN_S)
            part.replace(local)
        except OSError as error:
            raise LabError(
                f"{name} cannot be saved: {error.strerror}", where=str(here), remedy=file_remedy(error, part)
            ) from None
        finally:
            part.unlink(missing_ok=True)
        copied.append(name)
    return copied
