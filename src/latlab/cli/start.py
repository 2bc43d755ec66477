"""How the command line starts, and how it ends: signals, errors, exit codes."""

from __future__ import annotations

import gc
import signal
import sys
import traceback
from contextlib import suppress
from typing import Final

from latlab.cli.app import app
from latlab.cli.output import print_error, print_json, refused_output, replace_characters
from latlab.model.errors import EXIT_LAB, LatlabError, as_system_error, is_panic, own_fault, system_error

INTERRUPTED: Final = 130
"""What the command line library makes of Ctrl-C."""


def main() -> None:
    """Runs the command line; errors are one line on standard error and an exit code. A bug in latlab has its
    traceback below that line: it cannot be fixed without.
    """
    replace_characters()
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # what nohup has this ignore stays ignored
            signal.signal(number, _as_by_ctrl_c)
    # Nearly all that a verb makes lives until it ends: looking for what does not takes a tenth of a report's time.
    gc.set_threshold(200_000, 20, 100)
    try:
        app()
    except LatlabError as error:
        sys.exit(_failed(error))
    except OSError as error:
        sys.exit(_failed(refused_output(error) or system_error(error)))
    except SystemExit as end:
        # What the command line library makes of Ctrl-C is none of our exit codes.
        if end.code != INTERRUPTED:
            raise
        print_error("interrupted")
        sys.exit(EXIT_LAB)
    except BaseException as error:
        if not (isinstance(error, Exception) or is_panic(error)):
            raise
        if (refused := as_system_error(error)).errno:
            sys.exit(_failed(system_error(refused)))
        # Python's own exit code is 1, which means that a limit was exceeded.
        code = _failed(own_fault(error))
        traceback.print_exception(error)
        sys.exit(code)


def _as_by_ctrl_c(number: int, frame: object) -> None:
    """Interrupt what waits for SIGINT at this moment."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # what a script starts in the background is to ignore it
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)


def _failed(error: LatlabError) -> int:
    """The exit code; the error has been reported."""
    # Neither a full disk nor a closed pipe changes the exit code.
    if "--json" in sys.argv:
        with suppress(LatlabError):
            print_json({"error": error.as_dict(), "exit_status": error.exit_code})
    with suppress(OSError):
        print_error(error)
    return error.exit_code
