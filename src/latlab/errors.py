"""What latlab says when it cannot go on: what happened, where, what to do next, and the exit code."""

from __future__ import annotations

import errno

EXIT_OK = 0
EXIT_ACCEPT = 1
EXIT_USAGE = 2
EXIT_LAB = 3
EXIT_UNTRUSTED = 4


class LatlabError(Exception):
    """A failure a person can act on; printed as one line, never as a traceback.

    what: what was tried and what came back. where: host, file or path. remedy: what to do next.
    """

    exit_code = EXIT_LAB

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        self.what = what
        self.where = where
        self.remedy = remedy
        super().__init__(str(self))

    def __str__(self) -> str:
        where = f"{self.where}: " if self.where else ""
        remedy = f" ({self.remedy})" if self.remedy else ""
        return f"{where}{self.what}{remedy}"

    def as_dict(self) -> dict[str, str]:
        """The error as it stands in `--json` output and in cell.json."""
        return {"what": self.what, "where": self.where, "remedy": self.remedy}


class UsageError(LatlabError):
    """The scenario or the command line is wrong. Nothing was changed."""

    exit_code = EXIT_USAGE


class LabError(LatlabError):
    """The machine, a tool or an agent did not do what the test bed needs."""

    exit_code = EXIT_LAB


def system_error(error: OSError) -> LabError:
    """What the system refused, as a failure a person can act on."""
    return LabError(
        error.strerror or str(error) or type(error).__name__,
        where=str(error.filename or "this machine"),
        remedy="free space, or choose another folder for the runs" if error.errno == errno.ENOSPC else "",
    )
