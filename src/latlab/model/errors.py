"""What latlab prints when it cannot continue: what happened, where, what to do next, and the exit code."""

from __future__ import annotations

import errno
import os
import re
import stat
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

HOME = Path(__file__).parents[1]
SAID = 300
"""The length to which an exception's text is cut: a library may quote all that it read."""

EXIT_OK = 0
EXIT_ACCEPT = 1
EXIT_USAGE = 2
EXIT_LAB = 3
EXIT_UNTRUSTED = 4


class LatlabError(Exception):
    """A failure a person can act on; printed as one line, never as a traceback.

    what: what was tried and what came back. where: host, file or path. remedy: what to do next. parts: the failures
    it sums up, each on a separate line.
    """

    exit_code = EXIT_LAB

    def __init__(self, what: str, *, where: str = "", remedy: str = "", parts: Sequence[LatlabError] = ()) -> None:
        self.what = what
        self.parts = tuple(parts)
        self.where = where
        self.remedy = remedy
        super().__init__(str(self))

    def __str__(self) -> str:
        where = f"{self.where}: " if self.where else ""
        remedy = f" ({self.remedy})" if self.remedy else ""
        return "\n".join([f"{where}{self.what}{remedy}", *map(str, self.parts)])

    def as_dict(self) -> dict[str, Any]:
        """The error as it stands in `--json` output and in cell.json."""
        told: dict[str, Any] = {"what": self.what, "where": self.where, "remedy": self.remedy}
        return told | ({"problems": [part.as_dict() for part in self.parts]} if self.parts else {})


class UsageError(LatlabError):
    """The scenario or the command line is wrong. Nothing was changed."""

    exit_code = EXIT_USAGE


class LabError(LatlabError):
    """The machine, a tool or an agent did not do what the test bed needs."""

    exit_code = EXIT_LAB


class UnreachedError(LabError):
    """A host was not reached, so nothing was done there."""


class UnavailableError(LabError):
    """What the cell needs is not there, which only its running test bed could say: it is not measured."""


class StartError(LabError):
    """A machine did not get ready, but may if all is made again.

    which: identifies it to the code that makes it again. again: what that is, in words.
    """

    def __init__(self, error: LabError, *, which: str, again: str) -> None:
        self.which, self.again = which, again
        super().__init__(error.what, where=error.where, remedy=error.remedy)


class SnapshotError(StartError):
    """A machine did not get ready from the snapshot at `path`, now removed: the next start makes a new one."""

    def __init__(self, path: Path, error: LabError) -> None:
        what = f"{error.what}\n  its snapshot has been removed: {path}"
        super().__init__(
            LabError(what, where=error.where, remedy=error.remedy),
            which=str(path),
            again=f"starting again without the snapshot {path.name}, which failed",
        )


REJECTIONS = (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EACCES, errno.ENOPROTOOPT)
"""What the kernel makes of the ICMP answers of a firewall that rejects (Linux: icmp_err_convert, tab_unreach)."""


def rejection_remedy(number: int | None, port: str, words: str = "") -> str:
    """What to do where packets to a port, such as "UDP port 5600 of ecu", were rejected; empty where they were not.

    number: the errno. words: what a tool said, where that holds the error's text.
    """
    if number not in REJECTIONS and not any(os.strerror(one) in words for one in REJECTIONS):
        return ""
    remedy = f"a firewall rejects {port}: allow it there (`nft list ruleset`, `iptables -S`)"
    if number == errno.ECONNREFUSED or os.strerror(errno.ECONNREFUSED) in words:
        return f"{remedy}, or the program that listened there has ended"
    return f"{remedy}, or there is no route, or no answer to ARP (`ip route get`, `ip neigh`)"


def file_remedy(error: OSError, path: Path | str | None = None) -> str:
    """What to do where a file or a folder could not be used, by the errno; empty where that says nothing more.

    path: the file, where the error does not name it.
    """
    path = Path(str(path or error.filename or "."))
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return "free space, or choose another folder"
        case errno.EROFS:
            return "the file system is mounted read-only: choose another folder"
        case errno.ENOENT:
            return "" if path.parent.is_dir() else f"make the folder first: mkdir -p {path.parent}"
        case errno.EISDIR:
            return "there is a folder where a file is expected: remove it, or rename it"
        case errno.EMFILE | errno.ENFILE:
            return "raise the limit of open files: `ulimit -n`"
        case errno.EACCES | errno.EPERM:
            return _ownership(path)
    return ""


def as_system_error(error: BaseException) -> OSError:
    """The error; of one that a library made of a refusal of the system, that refusal, by the errno in its text."""
    if isinstance(error, OSError):
        return error
    number = re.search(r"\(os error (\d+)\)", str(error))
    return OSError(int(number[1]), os.strerror(int(number[1]))) if number else OSError(" ".join(str(error).split()))


def _ownership(path: Path) -> str:
    """Whose the file is that keeps us out, or the nearest folder of it that is there, and what to do."""
    try:
        found = next((one for one in (path, *path.parents) if os.path.lexists(one)), Path("."))
        if found.is_file() and os.access(found, os.W_OK):
            found = found.parent
        owner = found.lstat().st_uid
    except OSError:
        return "run with sudo"
    if owner == os.geteuid():
        return f"{found} is yours and protected: `ls -ld {found}`"
    return f"{found} belongs to {'root' if owner == 0 else f'user {owner}'}: run with sudo"


def system_error(error: OSError) -> LabError:
    """What the system refused, as a failure a person can act on."""
    return LabError(
        error.strerror or str(error) or type(error).__name__,
        where=str(error.filename or "this machine"),
        remedy=file_remedy(error),
    )


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """A context in which this file is written. OSError: that failed, and names it: the system names no open file."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


@contextmanager
def making_sense_of(where: Path | str, remedy: str = "") -> Iterator[None]:
    """A context in which files of a run become values, or values that stood in them are worked with.

    LabError: that failed, as of damaged files; it says where in the program, as only the caller can distinguish those
    from a fault of ours. remedy: what to do, if that is known better.
    """
    try:
        yield
    except LatlabError:
        raise
    except BaseException as error:
        if not (isinstance(error, Exception) or is_panic(error)) or (isinstance(error, OSError) and error.errno):
            raise
        raise LabError(
            f"is damaged, or not a file that latlab writes: {said_by(error)}",
            where=str(where),
            remedy=remedy or "restore a complete copy; if the file is unchanged, please report this",
        ) from error


def check_is_file(path: Path, remedy: str) -> None:
    """Do nothing where there is a file, or nothing. LabError: it is a folder, a pipe or a device.

    A pipe would be waited for, and a device has no end.
    """
    try:
        is_file = stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return
    if not is_file:
        raise LabError("cannot be read: it is a folder, a pipe or a device", where=str(path), remedy=remedy)


def reads_files(function: Callable[P, T]) -> Callable[P, T]:
    """The function under `making_sense_of` its first argument: a folder of a run or of a cell, or the path of one."""

    @wraps(function)
    def reading(*arguments: P.args, **options: P.kwargs) -> T:
        folder: Any = arguments[0]
        with making_sense_of(getattr(folder, "path", folder)):
            return function(*arguments, **options)

    return reading


def is_panic(error: BaseException) -> bool:
    """Whether a library written in Rust (polars) panicked: what that raises is no Exception."""
    return type(error).__name__ == "PanicException"


def said_by(error: BaseException) -> str:
    """What an exception says in one line: its type, its text, and the last place of ours that it came through."""
    said = " ".join(str(error).split())
    places = [frame for frame in traceback.extract_tb(error.__traceback__) if HOME in Path(frame.filename).parents]
    at = f" ({Path(places[-1].filename).name}, line {places[-1].lineno})" if places else ""
    return f"{type(error).__name__}{': ' if said else ''}{said[:SAID]}{at}"


def own_fault(error: BaseException) -> LabError:
    """What no code of ours foresaw, as a failure that says whose it is."""
    said = " ".join(str(error).split())
    return LabError(
        f"an internal error of latlab: {type(error).__name__}{': ' if said else ''}{said}",
        remedy="please report it, with the lines below and the output of latlab --version; the recordings are kept",
    )


AFTER = "; after that, "


def after_that(first: BaseException, then: BaseException) -> BaseException:
    """What to raise when `then` happened while `first` was being dealt with: the reason stays first, with then added.

    Two failures become one that says "…; after that, …"; what has been said already is not said again. A cancellation,
    whenever it came, stays one and carries the other as a note; so does what is no failure of ours.
    """
    # It takes a third of the time in which the command line answers; whoever has a cancellation has it already.
    import asyncio

    first, then = (system_error(one) if isinstance(one, OSError) else one for one in (first, then))
    if isinstance(first, LatlabError) and isinstance(then, LatlabError):
        where = f"{then.where}: " if then.where not in ("", first.where) else ""
        begins, *more = then.what.split(AFTER)
        # Both may begin with the one cause of both.
        new = [] if begins in first.what else [where + begins]
        new += [one for one in more if one not in first.what]
        if not new:
            return first
        what = AFTER.join((first.what, *new))
        remedy = "; ".join(dict.fromkeys(filter(None, (first.remedy, then.remedy))))
        told = LabError(what, where=first.where, remedy=remedy, parts=(*first.parts, *then.parts))
        told.__cause__ = first
        return told
    if not isinstance(then, asyncio.CancelledError):
        first.add_note(f"after that, {then}")
        return first
    if not isinstance(first, asyncio.CancelledError):
        then.add_note(f"before that, {first}")
        return then
    return first
