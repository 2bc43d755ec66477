"""What has to be undone, on disk before it is done, so that no crash leaves anything behind.

One file a run, JSON Lines. While the run lives it holds a lock (flock) on its file; the kernel drops that
lock however the run ends. A journal without a lock is therefore one that a dead run left.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from latlab.hosts import Host
from latlab.hosts.base import Description
from latlab.model.errors import LabError, check_is_file, file_remedy
from latlab.model.part import Document
from latlab.testbed.step import Argv

FORMAT = "latlab.journal/1"


@dataclass(frozen=True)
class UndoRecord:
    """A command that takes a step back; present, rescue as in Step.

    mark: what the step's command carries in its environment, and the one that undoes it (lab.process).
    """

    n: int
    host: Description
    title: str
    undo: Argv
    present: Argv | None
    rescue: tuple[str, str] | None = None
    mark: str = ""


@dataclass(frozen=True)
class ProcessRecord:
    """A process to end, which may never have begun: all that carry the mark in their environment (lab.process)."""

    n: int
    host: Description
    title: str
    mark: str


Record = UndoRecord | ProcessRecord


def journal_directory() -> Path:
    """Where all runs of this machine keep their journals: `$LATLAB_STATE`, or /var/lib/latlab/journal."""
    return Path(os.environ.get("LATLAB_STATE") or "/var/lib/latlab/journal")


class Journal:
    """One run's journal, open and locked: made by `create`, or taken over by `stale_journals`.

    unread: what of it could not be read; such a journal stays on disk, whatever has been undone.
    """

    def __init__(
        self, path: Path, descriptor: int, records: list[Record], undone: set[int], unread: LabError | None = None
    ) -> None:
        self.path = path
        self.run = path.stem
        self.unread = unread
        self.mark = secrets.token_hex(8)
        """What the commands of the run's steps carry in their environment."""
        self._descriptor = descriptor
        self._records = records
        self._undone = undone

    @classmethod
    def create(cls, run: str) -> Journal:
        """A new, empty journal of `run`, locked and on disk; LabError when it cannot be written."""
        directory = journal_directory()
        path = directory / f"{run}.jsonl"
        try:
            directory.mkdir(parents=True, exist_ok=True)
            descriptor = _create_locked(path)
        except FileExistsError:
            raise LabError(f"run {run} has a journal already", where=str(path), remedy="`latlab clean`") from None
        except OSError as error:
            raise LabError(
                f"cannot write the journal: {error.strerror}",
                where=str(directory),
                remedy=f"{file_remedy(error, directory)}; or set LATLAB_STATE to another directory".removeprefix(
                    "; or "
                ),
            ) from None
        journal = cls(path, descriptor, [], set())
        journal._append({"format": FORMAT, "run": run})
        for folder in (directory, directory.parent):
            _sync_directory(folder)
        return journal

    def record(
        self, host: Host, title: str, undo: Argv, present: Argv | None, rescue: tuple[str, str] | None = None
    ) -> int:
        """The number of the new record; it is on disk when this returns."""
        return self._add(UndoRecord(self._next(), host.describe(), title, undo, present, rescue, self.mark))

    def record_process(self, host: Host, title: str, mark: str) -> int:
        """The number of the record of a process that is about to begin with that mark; it is on disk."""
        return self._add(ProcessRecord(self._next(), host.ways[-1].describe(), title, mark))

    def undone(self, n: int) -> None:
        """Mark record n as settled, on disk."""
        self._append({"undone": n})
        self._undone.add(n)

    def pending(self) -> list[Record]:
        """What is still to be undone, last done first: the order to undo it in."""
        return [record for record in reversed(self._records) if record.n not in self._undone]

    def close(self) -> None:
        """Release the lock, and remove the file if all is undone; else it stays for clean-up."""
        if self._descriptor < 0:
            return
        if not self.pending() and self.unread is None:
            self.path.unlink(missing_ok=True)
        os.close(self._descriptor)
        self._descriptor = -1

    def _next(self) -> int:
        return len(self._records)

    def _add(self, record: Record) -> int:
        self._append({"do": asdict(record)})
        self._records.append(record)
        return record.n

    def _append(self, entry: Document) -> None:
        line = json.dumps(entry, separators=(",", ":")).encode() + b"\n"
        size = os.fstat(self._descriptor).st_size
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
            os.fsync(self._descriptor)
        except OSError as error:
            # Half a record would spoil the next one, once there is room again.
            os.ftruncate(self._descriptor, size)
            raise LabError(
                f"cannot write the journal: {error.strerror}",
                where=str(self.path),
                remedy=file_remedy(error, self.path),
            ) from None


def stale_journals() -> list[Journal]:
    """The journals that dead runs left, each now locked by us; those of living runs are not touched.

    What a record announced that was torn, by a crash or a full disk, was never begun: it is passed over. What cannot be
    read otherwise is the journal's `unread`, and the rest of it, and of the others, is read.
    """
    return list(_stale(journal_directory()))


def _stale(directory: Path) -> Iterator[Journal]:
    for path in sorted(directory.glob("*.jsonl")):
        try:
            check_is_file(path, "remove it: latlab keeps nothing else there")
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue
        except LabError as error:
            yield Journal(path, -1, [], set(), error)
            continue
        except OSError as error:
            what = f"cannot open the journal: {error.strerror}"
            yield Journal(path, -1, [], set(), LabError(what, where=str(path), remedy=file_remedy(error, path)))
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            continue
        if os.fstat(descriptor).st_nlink == 0:
            os.close(descriptor)
            continue
        yield Journal(path, descriptor, *_read(path, descriptor))


def _read(path: Path, descriptor: int) -> tuple[list[Record], set[int], LabError | None]:
    """The journal's records, the numbers of those that are undone, and what could not be read."""
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) != len(content):
        os.ftruncate(descriptor, len(whole))
    records: list[Record] = []
    undone: set[int] = set()
    unread = []
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            entry = _entry(line)
            if "undone" in entry:
                undone.add(int(entry["undone"]))
            elif "do" in entry:
                records.append(_record(entry["do"]))
            elif entry["format"] != FORMAT:
                raise ValueError(entry["format"])
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            unread.append(str(number))
    if not unread:
        return records, undone, None
    lines = f"line {unread[0]} is not a record" if len(unread) == 1 else f"lines {', '.join(unread)} are not records"
    remedy = "the changes in the other lines are undone; undo those of these lines manually, then delete the file"
    return records, undone, LabError(f"{lines} of {FORMAT}", where=str(path), remedy=remedy)


def _entry(line: bytes) -> Document:
    """The entry on a line; after one that was torn as the disk was full, the one that follows on the same line."""
    torn = 0
    while True:
        try:
            entry = json.loads(line[torn:])
        except ValueError:
            following = [at for key in (b'{"do":', b'{"undone":') if (at := line.find(key, torn + 1)) > 0]
            if not following:
                raise
            torn = min(following)
        else:
            return dict(entry)


def _record(fields: Document) -> Record:
    """The record of these fields. ValueError, LookupError, TypeError: they are none of a record."""
    n, host, title = fields["n"], dict(fields["host"]), str(fields["title"])
    if not isinstance(n, int):
        raise TypeError(n)
    mark = str(fields.get("mark", ""))
    if "undo" not in fields:
        return ProcessRecord(n, host, title, _words([fields["mark"]])[0])
    present, rescue = fields["present"], fields.get("rescue")
    present, rescue = present and _words(present), rescue and (rescue[0], rescue[1])
    return UndoRecord(n, host, title, _words(fields["undo"]), present, rescue, mark)


def _words(words: Any) -> Argv:
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise TypeError(words)
    return tuple(words)


def _create_locked(path: Path) -> int:
    """The descriptor of a new file at path, locked.

    A clean-up at this moment may take it for a dead run's in the instant before the lock; then it has
    no name any more, and another one is made.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
