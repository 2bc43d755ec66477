"""Taking back what a journal lists: at the end of a run, or after one that died."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from latlab.errors import LabError
from latlab.host import Host, host_from
from latlab.lab.journal import Journal, ProcessRecord, Record, stale_journals
from latlab.lab.process import end_process

HostOf = Callable[[Record], Host]
End = Callable[[Host, ProcessRecord], Awaitable[bool]]


def described_host(record: Record) -> Host:
    """The host as the record describes it."""
    return host_from(record.host)


async def end_marked(host: Host, record: ProcessRecord) -> bool:
    """Whether any process carried the record's mark; none does any more."""
    return await end_process(host, record.mark)


async def undo_journal(
    journal: Journal, host_of: HostOf = described_host, end: End = end_marked
) -> tuple[list[str], list[LabError]]:
    """What was undone, in words, and what could not be: a failure does not keep the rest from it.

    end: how a journalled process is ended.
    """
    words: list[str] = []
    failures: list[LabError] = []
    for record in journal.pending():
        try:
            host = host_of(record)
            if await _undo(record, host, end):
                words.append(f"{host.name}: {record.title}")
            journal.undone(record.n)
        except LabError as error:
            failures.append(error)
    return words, failures


async def clean_stale() -> list[str]:
    """What dead runs had left and is now undone, in words; empty when nothing was left.

    Living runs are not touched. LabError lists all that could not be undone; it stays in its journal.
    """
    words: list[str] = []
    failures: list[LabError] = []
    for journal in stale_journals():
        try:
            undone, failed = await undo_journal(journal)
        finally:
            journal.close()
        words += [f"run {journal.run}: {line}" for line in undone]
        failures += failed
    raise_together("clean-up is not complete", failures)
    return words


def raise_together(what: str, failures: list[LabError]) -> None:
    """Nothing without failures; else raises one LabError that lists them all."""
    if failures:
        raise LabError(
            f"{what}: " + "; ".join(str(failure) for failure in failures),
            remedy="put right what is named, then run `latlab clean`",
        )


async def _undo(record: Record, host: Host, end: End) -> bool:
    """Whether there was something to undo."""
    if isinstance(record, ProcessRecord):
        return await end(host, record)
    if record.present is not None and (await host.run(record.present, check=False)).returncode != 0:
        return False
    await host.run(record.undo)
    return True
