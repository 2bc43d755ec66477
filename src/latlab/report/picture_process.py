"""A second process that draws a report's pictures, while this one analyses and writes the page.

It is a help and no more: what it does not draw, for whatever reason, is drawn here, and its errors are those of a
report without it. It ends with its standard input, so it does not outlive this process, however this one ends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final

from latlab.recordings.run_folder import RunFolder

WORTH_CELLS: Final = 4
"""With fewer cells the pictures are drawn before a process has imported what draws them."""

Drawings = Sequence[Callable[[], None]]


def picture_process(folder: RunFolder, formats: Sequence[str]) -> PictureProcess | None:
    """The process, to be entered; None where it would be no help: few cells, no pictures, or one CPU."""
    helps = formats and sys.executable and len(os.sched_getaffinity(0)) > 1 and len(folder.cells()) >= WORTH_CELLS
    return PictureProcess(folder) if helps else None


class PictureProcess:
    """A context: within it the process is there, after it the process is gone. Of one report, which begins and finishes
    it once.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._count: int | None = None
        self._left: deque[int] = deque()
        self._done: set[int] = set()
        self._counted = threading.Event()

    def __enter__(self) -> PictureProcess:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "latlab.report.picture_helper", str(self._folder.path.resolve())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # what fails there is tried again here, where its error is told
            process_group=0,  # Ctrl-C is for this process, which ends that one
            text=True,
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # what could not be written to it any more
                stream.close()  # type: ignore[union-attr]

    def begin(self, formats: Sequence[str], pictured: Collection[str] | None) -> None:
        """Let the process draw `PictureFiles.drawings`, from the first one on. The result is written already."""
        wish = json.dumps({"formats": list(formats), "pictured": None if pictured is None else list(pictured)})
        self._feeding = threading.Thread(target=self._feed, args=(wish,), daemon=True)
        self._feeding.start()

    def finish(self, drawings: Callable[[], Drawings]) -> None:
        """Wait until every picture is there. The last ones are drawn here while the process draws those before them.

        drawings: the same ones in the same order, asked for only where something is left to do here.
        """
        own: Drawings = ()
        self._counted.wait()
        while (number := self._last()) is not None:
            own = own or drawings()
            own[number]()
            self._done.add(number)
        self._feeding.join()
        if self._count is None or len(self._done) < self._count:
            for number, draw in enumerate(own or drawings()):
                if number not in self._done:
                    draw()

    def _last(self) -> int | None:
        """The last drawing that nobody has taken; None if it is the only one: the process will have begun it before
        this one has imported what draws.
        """
        with suppress(IndexError):  # taken meanwhile
            return self._left.pop() if len(self._left) > 1 else None
        return None

    def _feed(self, wish: str) -> None:
        """Wait until the process has drawn all that was left, or has ended."""
        # What it says is no number once it has ended; its pipes may be gone then, too.
        with suppress(OSError, ValueError):
            self._count = int(self._answer(wish))
            self._left.extend(range(self._count))
            self._counted.set()
            with suppress(IndexError):  # none left
                while True:
                    self._done.add(int(self._answer(str(self._left.popleft()))))
        self._counted.set()

    def _answer(self, line: str) -> str:
        """What the process says to this line; empty: it has ended."""
        asked, answered = self._process.stdin, self._process.stdout
        assert asked and answered
        asked.write(f"{line}\n")
        asked.flush()
        return answered.readline()
