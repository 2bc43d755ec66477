"""Taking back what a journal lists: at the end of a run, or after one that died."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

from latlab.hosts import Host, host_from
from latlab.model.errors import LabError, UnreachedError
from latlab.testbed.journal import Journal, ProcessRecord, Record, UndoRecord, stale_journals
from latlab.testbed.process import MARK, end_process, settle_commands
from latlab.testbed.rescue import rescue

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
