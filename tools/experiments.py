#!/usr/bin/env python3
"""Run the five published experiments, and write docs/experiments: the author's tables, ours, and what agrees.

experiments.py                      run all, then write the pages
experiments.py --only launch-time   one experiment, or one scenario of it (may be given several times)
experiments.py --report-only RUN…   write the pages from runs that are there
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from latlab import load
from latlab.model.errors import LabError
from published import FIVE
from published.experiment import Part
from published.pages import ROOT, write_pages

LATLAB: Final = Path(sys.executable).parent / "latlab"
MEASURED: Final = (0, 1, 4)
"""Exit codes of `latlab run` after which there are figures; 4: its verdict is in them."""


def main(argv: Sequence[str] | None = None) -> int:
    """Return the exit code: 0, or 3 where a run failed or a name is unknown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="an experiment or a scenario")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs", metavar="FOLDER", help="where runs are kept: runs")
    parser.add_argument("--report-only", nargs="+", metavar="RUN", help="run folders to write the pages from")
    options = parser.parse_args(argv)
    try:
        if options.report_only:
            announce(write_pages([load(folder) for folder in options.report_only]))
            return 0
        return max(run(part, options.runs) for part in chosen(options.only))
    except LabError as error:
        print(f"experiments: {error}", file=sys.stderr)
        return 3


def run(part: Part, runs: Path) -> int:
    """Measure the scenario and write its page. Return the exit code: 0, or 3 where not everything was measured.

    A page is only written from a complete run.
    """
    for image in part.images:
        build = ["image", "build", *image.split()]
        if code := latlab(*build, "--quiet"):
            return failed(part, build, code)
    before = set(runs.glob(f"*-{part.scenario}-*"))
    scenario = str(ROOT / f"scenarios/{part.scenario}.yaml")
    if (code := latlab("run", scenario, "--runs", str(runs), "--metric", part.metric)) not in MEASURED:
        return failed(part, ["run"], code)
    for made in set(runs.glob(f"*-{part.scenario}-*")) - before:
        announce(write_pages([load(made)]))
    return 0


def latlab(*arguments: str) -> int:
    """Run latlab. Return its exit code."""
    return subprocess.run([LATLAB, *arguments], check=False).returncode


def failed(part: Part, command: Sequence[str], code: int) -> int:
    """Print which command failed, and what measures the scenario again. Return the exit code, 3."""
    again = f"tools/experiments.py --only {part.scenario}"
    what = f"latlab {' '.join(command)} exited with {code}; its page is unchanged"
    print(f"experiments: {part.scenario}: {what} (`{again}` runs it again)", file=sys.stderr)
    return 3


def announce(paths: Sequence[Path]) -> None:
    """Print the pages that were written."""
    print(*paths, sep="\n")


def chosen(names: Sequence[str]) -> list[Part]:
    """The scenarios of these names, or of experiments of these names; all if none is given. LabError: unknown name."""
    parts: dict[str, tuple[Part, ...]] = {part.scenario: (part,) for one in FIVE for part in one.parts}
    parts |= {one.name: tuple(one.parts) for one in FIVE}
    for name in names:
        if name not in parts:
            raise LabError(f"there is no experiment {name!r}", where="--only", remedy=f"one of {', '.join(parts)}")
    every = [part for one in FIVE for part in one.parts]
    return [part for part in every if not names or any(part in parts[name] for name in names)]


if __name__ == "__main__":
    sys.exit(main())
