"""Recorded runs of every kind, analysed anew: have they the figures that they had?

    tools/recorded_runs.py                     analyse all in tests/result/recorded, print what differs; status 1 if any
    tools/recorded_runs.py --accept            the results as they are now are the ones to be had
    tools/recorded_runs.py --keep RUN NAME     record a run folder under that name; --accept then writes its result
    tools/recorded_runs.py RUN RUN             print what differs in the results of two runs: folders, or result.json

Every figure of a result counts: statistics, counts, intervals, stages, anomalies, ids of reasons, verdicts. Whole
numbers are equal, others to a part in 10⁹, as CPUs add up in another order. Text counts where it is one word, as a
verdict is: what is said in sentences may be said better.
"""

from __future__ import annotations

import argparse
import io
import json
import lzma
import math
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from latlab.evaluation.comparison.document import compare
from latlab.evaluation.comparison.wanted import wanted
from latlab.evaluation.run import make_result
from latlab.imports.base import Given
from latlab.imports.write import import_files
from latlab.recordings.run_folder import RunFolder
from latlab.run.watch import finish_watch, is_unfinished_watch
from latlab.synthetic import generate, write_run
from latlab.synthetic_file import read_description

ROOT: Final = Path(__file__).parents[1]
RECORDED: Final = ROOT / "tests/result/recorded"
RESULTS: Final = RECORDED / "results.json.xz"
"""{name: its result, or the document of a comparison}."""
RUNS: Final = tuple(sorted(path.name.removesuffix(".tar.xz") for path in RECORDED.glob("*.tar.xz")))
"""Run folders as they were measured, without what is computed of the recordings."""
IMPORTS: Final[Mapping[str, tuple[tuple[str, ...], Given]]] = {
    **{
        f"import-{name.replace('.', '-')}": ((name,), Given())
        for name in (
            *("cyclictest-smp.json", "cyclictest-smp.txt", "cyclictest-sum.txt", "ddsperf-ping.txt", "isochron.dat"),
            *(
                "isochron-summary.txt",
                "rtc-histogram.txt",
                "rtc-testbench.log",
                "rtla-osnoise.txt",
                "rtla-timerlat.txt",
            ),
            *("sample-app-taprio.log", "sockperf-ping-pong.csv", "sockperf-under-load.csv", "txrx-tsn.txt"),
        )
    },
    "import-isochron-report": (("isochron-report.csv",), Given(columns="qSwstTaRrA", clock_bound_ns=1_000)),
    "import-captures": (("first.pcap", "second.pcap"), Given()),
}
"""Name → files of tests/imports/captured, and what is stated about them."""
SYNTHETIC: Final = tuple(sorted(path.stem for path in RECORDED.glob("*.yaml")))
COMPARED: Final[Mapping[str, tuple[tuple[str, ...], dict[str, str], tuple[str, ...]]]] = {
    "compared-runs": (("first", "first-again"), {}, ()),
    "compared-values": (("first",), {"by": "loads"}, ()),
    "compared-with-a-baseline": (("first-again",), {"baseline": "first"}, ("control.latency.p99=10%",)),
}
"""Name → the runs, how they are compared, and thresholds."""
NAMES: Final = (*RUNS, *IMPORTS, *SYNTHETIC, *COMPARED)
COMPUTED: Final = ("result.json", "report.html", "figures.csv", "plan.txt", "packets.parquet", "classes.parquet")
NOT_COMPARED: Final = frozenset({"run"})
"""The name of an imported run has the time in it."""


def analysed(name: str, folder: Path) -> dict[str, Any]:
    """The result of what was recorded under that name. folder: an empty one, to work in."""
    if name in COMPARED:
        runs, how, thresholds = COMPARED[name]
        for one in {*runs, *(text for key, text in how.items() if key == "baseline")}:
            make_result(RunFolder(_unpacked(one, folder)))
        return compare(runs, folder, wanted((), (), (), thresholds), **how).document()
    if name in SYNTHETIC:
        path = write_run(generate(read_description(RECORDED / f"{name}.yaml")), folder / name)
        return make_result(RunFolder(path)).document()
    if name in IMPORTS:
        files, given = IMPORTS[name]
        paths = [ROOT / "tests/imports/captured" / file for file in files]
        document = make_result(import_files(paths, folder, given=given).folder).document()
        # Wherever the repository is.
        return dict(json.loads(json.dumps(document).replace(f"{ROOT}/", "")))
    run = RunFolder(_unpacked(name, folder))
    if is_unfinished_watch(run):
        finish_watch(run)
    return make_result(run).document()


@cache
def results() -> dict[str, dict[str, Any]]:
    """The results that are to be had, by name."""
    found: dict[str, dict[str, Any]] = json.loads(lzma.decompress(RESULTS.read_bytes()))
    return found


def differences(before: Any, now: Any, path: str = "") -> Iterator[str]:
    """A line for each figure that is another, is gone or is new: `path: before → now`."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in [*before, *(key for key in now if key not in before)]:
            if key not in NOT_COMPARED:
                yield from differences(before.get(key, "(nothing)"), now.get(key, "(nothing)"), f"{path}/{key}")
    elif isinstance(before, list) and isinstance(now, list):
        if len(before) != len(now):
            yield f"{path}: {len(before)} entries → {len(now)}"
        for number, (one, other) in enumerate(zip(before, now, strict=False)):
            yield from differences(one, other, f"{path}/{number}")
    elif not _same(before, now):
        yield f"{path}: {_shown(before)} → {_shown(now)}"


def keep(run: Path, name: str) -> Path:
    """The archive of the run folder, without what is computed of it."""
    path = RECORDED / f"{name}.tar.xz"
    is_watched = (run / "watch.json").exists()
    with tarfile.open(path, "w:xz", preset=9) as archive:
        for file in sorted(one for one in run.rglob("*") if one.is_file()):
            inside = file.relative_to(run)
            computed = inside.name in COMPUTED or inside.parts[0] in ("pictures", *(("cells",) if is_watched else ()))
            # Of a flow and of a tool it is what was recorded.
            if computed and not inside.name.startswith(("flow-", "tool-")):
                continue
            data = file.read_bytes()
            entry = tarfile.TarInfo(str(Path(name) / inside))
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path


def _unpacked(name: str, folder: Path) -> Path:
    with tarfile.open(RECORDED / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder / name


def _same(before: Any, now: Any) -> bool:
    if isinstance(before, str) and isinstance(now, str):
        return before == now or (" " in before and " " in now)
    numbers = [one for one in (before, now) if isinstance(one, int | float) and not isinstance(one, bool)]
    if len(numbers) == 2 and any(isinstance(one, float) for one in numbers):
        return math.isclose(*numbers, rel_tol=1e-9, abs_tol=1e-9) or all(math.isnan(one) for one in numbers)
    return type(before) is type(now) and bool(before == now)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}…"


def main() -> int:
    """Compare, or accept."""
    parser = argparse.ArgumentParser(description="recorded runs, analysed anew: have they the figures that they had?")
    parser.add_argument("--accept", action="store_true", help="the results as they are now are the ones to be had")
    parser.add_argument("--keep", nargs=2, metavar=("RUN", "NAME"), help="record a run folder under that name")
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="two runs, whose results are compared")
    asked = parser.parse_args()
    if asked.keep:
        print(keep(Path(asked.keep[0]), asked.keep[1]))
        return 0
    if asked.runs:
        before, now = (json.loads((one / "result.json" if one.is_dir() else one).read_text()) for one in asked.runs)
        found = list(differences(before, now))
        print(*found, sep="\n", end="\n" if found else "")
        return 1 if found else 0
    had = results() if RESULTS.exists() else {}
    new: dict[str, dict[str, Any]] = {}
    differ = 0
    for name in NAMES:
        with tempfile.TemporaryDirectory() as folder:
            new[name] = analysed(name, Path(folder))
        for line in differences(had.get(name, {}), new[name]):
            differ += 1
            print(f"{name}{line}")
    if asked.accept:
        text = json.dumps(new, ensure_ascii=False, separators=(",", ":")).encode()
        RESULTS.write_bytes(lzma.compress(text, preset=9 | lzma.PRESET_EXTREME))
        return 0
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
