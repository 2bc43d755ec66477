"""Load by stress-ng: it computes, fills memory, or writes a file, and counts bogus operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import yaml

from latlab.model.errors import LabError
from latlab.model.part import Document
from latlab.testbed.loads.base import SPARE_S, Achieved, LoadKind, LoadPlan, LoadProcess, Output, Work

STRESSORS: Mapping[str, str] = {"cpu": "cpu", "memory": "vm", "io": "hdd"}
"""What stress-ng calls them."""
STARTED = "dispatching hogs"
"""In the line that it writes as it starts its workers: to standard error, older ones to standard output."""
FIGURES = "/proc/self/fd/1"
"""Its figures go where it writes: a file would have to be fetched. /dev/stdout is not in every guest."""


def processes(plan: LoadPlan) -> list[LoadProcess]:
    """One stress-ng, which has a process for each worker."""
    assert plan.work, plan.name
    argv = ("stress-ng", f"--{STRESSORS[plan.work.what]}", str(plan.instances), *_options(plan.work, plan.instances))
    told = ("--metrics-brief", "--yaml", FIGURES, "--timeout", f"{plan.seconds + SPARE_S}s")
    command = (*plan.source_cores.prefix(), *argv, *told)
    return [LoadProcess("source", plan.source, command, ending="interrupt", says=STARTED)]


def _options(work: Work, workers: int) -> tuple[str, ...]:
    # It divides what it is given among its workers (0.15.06: `--vm 2 --vm-bytes 128m` are 64 MiB each).
    whole = str((work.size or 0) * workers)
    if work.what == "memory":
        # Each time around all of it is mapped and cleared by one call that lasts; zero-one then fills it twice, quicker
        # than most methods: most of the time is the kernel's.
        return ("--vm-bytes", whole, "--vm-method", "zero-one", "--vm-populate")
    if work.what == "io":
        return ("--hdd-bytes", whole, "--hdd-opts", "dsync", "--temp-path", str(work.path))
    return ()


def parse(plan: LoadPlan, outputs: Sequence[Output]) -> Achieved:
    """Bogus operations a second of wall-clock time, of all workers together, from the YAML that it writes at its end.

    LabError: it gave up, or did nothing; it says why on standard error.
    """
    assert plan.work, plan.name
    (output,) = outputs
    document = _document(output.stdout)
    stressor = STRESSORS[plan.work.what]
    found = [entry for entry in document.get("metrics") or () if entry["stressor"] == stressor]
    if not found or not found[0]["bogo-ops"]:
        said = "; ".join(line.strip() for line in output.stderr.splitlines()[-3:]) or "it gives no reason"
        raise LabError(
            f"load {plan.name}: stress-ng did no work: {said}",
            where=plan.source,
            remedy="check that there is space for its size, and that its path is writable",
        )
    return Achieved(
        version=str(document["system-info"]["stress-ng-version"]),
        sent_bps=None,
        received_bps=None,
        sent_pps=None,
        work_per_s={"bogo ops": float(found[0]["bogo-ops-per-second-real-time"])},
        detail=found[0],
    )


def _document(stdout: str) -> Document:
    """The YAML in what it wrote, between its two marks. ValueError: there is none, or not all of it."""
    begun, mark, rest = stdout.partition("---\n")
    text, ended, _ = rest.partition("\n...")
    if not mark or not ended:
        raise ValueError(f"no figures in {(begun or rest)[-100:]!r}")
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None
    if not isinstance(document, dict):
        raise ValueError("its figures are not a mapping")
    return document


STRESS_NG = LoadKind("stress-ng", ("stress-ng",), processes, parse)
