"""The process that draws a run's pictures next to the one that writes its page: `python -m`, with the run's folder.

Standard input, a line each: {"formats": […], "pictured": […] or null}, then numbers of `PictureFiles.drawings`.
Standard output: how many of those there are, then each number when it is drawn. It ends with its input, or by failing.
"""

from __future__ import annotations

import gc
import json
import os
import queue
import sys
import threading
from pathlib import Path

from latlab.recordings.run_folder import RunFolder
from latlab.report.picture_files import PictureFiles
from latlab.result import load_result


def main() -> None:
    """Draws until standard input ends. Whatever a drawing raises."""
    gc.set_threshold(200_000, 20, 100)  # as in the process next to it
    asked: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_listen, args=(asked,), daemon=True).start()
    folder = RunFolder(Path(sys.argv[1]))
    wish = json.loads(asked.get())
    drawings = PictureFiles.of_run(folder, load_result(folder), wish["formats"], wish["pictured"]).drawings()
    print(len(drawings), flush=True)
    while True:
        number = int(asked.get())
        drawings[number]()
        print(number, flush=True)


def _listen(asked: queue.Queue[str]) -> None:
    """Does not return: this process ends with its input, in the midst of a drawing, too."""
    for line in sys.stdin:
        asked.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
