"""The pages of docs/experiments: the author's tables next to ours, claims, what does not agree, how it was measured.

A page has a section for each of its scenarios, between marks: one that is not written anew stays as it is. The table of
all claims in README.md is read from the pages.
"""

from __future__ import annotations

import io
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, get_args

import yaml
from PIL import Image

from latlab.model.errors import LabError
from latlab.notebook import Run
from latlab.report.charts.sheet import Plotted, figure_bytes
from latlab.scenario import load_scenario
from published import FIVE
from published.claims import US, Agrees, Claim, Figures, Finding, number
from published.experiment import MICROSECONDS, Entry, Experiment, Ours, Part, Published, Table
from published.pictures import caption

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = ROOT / "docs/experiments"
MOST_BYTES: Final = 130_000
"""Of a picture."""
_COLOURS: Final = 64
_SECTION: Final = re.compile(r"<!-- (\S+) -->\n(.*?)<!-- /\1 -->\n", re.DOTALL)
_CLAIM: Final = re.compile(r"^\| (?!---|the author)(.+) \|$", re.MULTILINE)

_CLAIMS: Final = ("the author's claim", "our test", "measured", "agrees")
_CONTRADICTS: Final = "### What disagrees, and why"
_UNTESTABLE: Final = "### Not testable here, and why"
_WIDE: Final = "### Not decided: an interval crosses a bound"
_CLOCKS: Final = "The share in brackets is the clock error's; more repetitions narrow the rest."
_ABSENT: Final = "### Not decided: not measured, or it did not occur"

HEAD: Final = """\
# Five published experiments, repeated

Each experiment is one scenario or several, {scenarios} in all. They are measured on an emulated
board, without any hardware.

- `make experiments` builds the images, runs all scenarios and writes these pages. The runs below took
  {hours} on a machine with {cpus} CPUs{unmeasured}. Images take a few minutes, the first time only.
- `make experiments ONLY=launch-time` runs one experiment, by the name of its page or of its scenario.
- On real boards replace `hosts` and `links` of a scenario, as the first lines of
  [`tsn-bridges`](../../scenarios/tsn-bridges.yaml) and [`txtime`](../../scenarios/txtime.yaml) say. Where a
  scenario's name ends in `-board`, take the one without it. Only `two-way-kernels-board` has none: boot each kernel
  on the boards, and run `two-way`. [Machines](../reference/machines.md) says what boards need.

## What these figures can show

In [virtual time](../reference/machines.md#virtual-time) the board's clock counts the instructions that its CPUs
execute. Figures compare configurations, and say nothing about the speed of any hardware. Where a test
has bounds in µs, *yes* or *no* says whether the emulated board lies within them, and no more. They are
the author's, derived from his figures, or a setting of the scenario.

**The clock counts the instructions of all CPUs.** Two busy CPUs each run at half speed. So load, or
a thread that polls, slows a stream on *another* CPU, too. Claims that need a CPU whose time is its
own, as for a pinned virtual machine or a poll-mode thread, are *not testable here*; their figures
are shown all the same.

## Claims

{table}

{verdicts}

The unit of a comparison is a repetition. A difference is the mean over repetitions with its 95 %
interval by Student's t, widened by the clock error. All intervals of a claim hold jointly at 95 %.

- **yes**: every interval lies within the test.
- **no**: an interval lies outside.
- **not shown**: an interval crosses a bound, something was not measured, or it did not occur.
- **not testable here**: the claim needs a CPU whose time is its own.

*Kernel bridges* are tap, macvtap, XDP, and Open vSwitch without AF_XDP. A packet *misses its slot* if it
leaves after its own gate window.
"""
INTERVALS: Final = (
    "±: half of the 95 % interval over repetitions. Intervals of one claim hold jointly, and include the clock error."
)
_ANSWERS: Final[tuple[Agrees, ...]] = get_args(Agrees)


def write_pages(runs: Sequence[Run], pages: Path = PAGES) -> list[Path]:
    """The pages of these runs, and the summary of all pages there are. Of one scenario the last run counts.

    Pictures that no page has any more are removed.
    """
    of = {run.folder.run().name: run for run in runs}
    written = []
    for experiment in FIVE:
        if any(part.scenario in of for part in experiment.parts):
            path = pages / f"{experiment.name}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_page(experiment, of, path), encoding="utf-8")
            written.append(path)
    summary = pages / "README.md"
    summary.write_text(_summary(pages), encoding="utf-8")
    shown = "".join(path.read_text(encoding="utf-8") for path in pages.glob("*.md"))
    for path in pages.glob("pictures/*.png"):
        if f"(pictures/{path.name})" not in shown:
            path.unlink()
    return [*written, summary]


def _page(experiment: Experiment, runs: Mapping[str, Run], path: Path) -> str:
    there = _sections(path)
    lines = [
        f"# {experiment.title}",
        "",
        experiment.question,
        "",
        f"Source: {experiment.source}. [All experiments](README.md)",
        "",
        INTERVALS,
        "",
    ]
    for part in experiment.parts:
        if part.scenario in runs:
            figures = Figures(runs[part.scenario])
            text = "\n".join(section(part, figures, write_pictures(part, figures, path.parent / "pictures"))) + "\n"
        elif part.scenario in there:
            text = there[part.scenario]
        else:
            text = f"## {part.title}\n\nNot measured yet: `make experiments ONLY={part.scenario}`.\n\n"
        lines.append(f"<!-- {part.scenario} -->\n{text}<!-- /{part.scenario} -->\n")
    return "\n".join(lines) + _after(path)


def _after(path: Path) -> str:
    """What was written by hand below a page's sections."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    ends = [found.end() for found in _SECTION.finditer(text)]
    return text[ends[-1] :] if ends else ""


def section(part: Part, figures: Figures, pictures: Sequence[str] = ()) -> Iterator[str]:
    """The lines of one scenario's section. pictures: those of the part that are there, by name."""
    yield from (f"## {part.title}", "", "```", f"make experiments ONLY={part.scenario}", "```", "")
    scenario = f"[`{part.scenario}`](../../scenarios/{part.scenario}.yaml)"
    yield from (f"It builds what is missing, runs the scenario {scenario} and writes this section.", "")
    yield from (f"Published figures are the author's; ours are `{_label(figures)}`.", "")
    published = _published(part.scenario)
    for table in part.tables:
        yield from (table.note, "")
        yield from _markdown(
            table.headings, [[shown(one, table, figures, published) for one in row] for row in table.rows]
        )
        yield ""
    for picture in part.pictures:
        if picture.name in pictures:
            yield from (f"{picture.shows}:", "", f"![{picture.shows}](pictures/{picture.name}.png)", "")
    found = [(claim, claim.found(figures)) for claim in part.claims]
    yield from ("### Claims", "")
    judged = [(claim.says, claim.test, one.measured, f"**{one.agrees}**") for claim, one in found]
    yield from _markdown(_CLAIMS, judged)
    yield ""
    undecided = [(claim, one) for claim, one in found if one.agrees == "not shown"]
    wide = [f"{_test(claim)}: {one.wide}{_also(claim)}" for claim, one in undecided if one.wide]
    absent = [f"{_test(claim)}: {one.absent}{_also(claim)}" for claim, one in undecided if one.absent]
    of_width = f"{_WIDE}\n\n{_CLOCKS}" if any("(clocks: " in line for line in wide) else _WIDE
    because = ((_CONTRADICTS, _reasons(found, "no")), (_UNTESTABLE, _reasons(found, "not testable here")))
    for title, lines in (*because, (of_width, wide), (_ABSENT, absent)):
        if lines:
            yield from (title, "", *(f"- {line}" for line in lines), "")
    yield from ("### How the test bed differs", "", part.differs, "", "### How it was measured", "")
    yield from (f"- {line}" for line in _measured(part, figures))
    yield ""


def _reasons(found: Sequence[tuple[Claim, Finding]], agrees: Agrees) -> list[str]:
    """Why claims do not hold here, or cannot be tested: those with one reason in one line."""
    reasons: dict[str, list[str]] = {}
    for claim, finding in found:
        if finding.agrees == agrees:
            reasons.setdefault(claim.why, []).append(_test(claim))
    return [f"{'; '.join(claims)}: {why}" for why, claims in reasons.items()]


def _test(claim: Claim) -> str:
    return f"*{claim.test}*"


def _also(claim: Claim) -> str:
    """What differs here, where that is more than the microseconds."""
    return "" if claim.why == MICROSECONDS else f". {claim.why}"


def shown(entry: Entry, table: Table, figures: Figures, published: Mapping[str, Mapping[str, float | None]]) -> str:
    """A cell of a table."""
    if isinstance(entry, str):
        return entry
    if isinstance(entry, Published):
        row = published[entry.row]
        values = [(figure, row.get(figure)) for figure in entry.figures]
        return " / ".join("–" if value is None else _number(value, figure, table) for figure, value in values)
    if isinstance(entry, Ours):
        return _ours(entry, table, figures)
    return entry(figures)


def _ours(entry: Ours, table: Table, figures: Figures) -> str:
    words = []
    for figure in entry.figures:
        found = figures.over_all(entry.of, figure)
        if found is None:
            words.append("–")
            continue
        value, half = found
        scale = 1 if figure == "n" else entry.scale
        error = f" ±{_number(half * scale, figure, table)}" if half is not None and figure == "mean" else ""
        words.append(_number(value * scale, figure, table) + error)
    return " / ".join(words) if any(word != "–" for word in words) else "–"


def _number(value: float, figure: str, table: Table) -> str:
    return number(value, 0) if figure == "n" or table.unit == "ns" else number(value / US, table.decimals)


def _markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |"
    yield f"|{'---|' * len(headings)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def _published(scenario: str) -> dict[str, dict[str, float | None]]:
    rows = load_scenario(ROOT / f"scenarios/{scenario}.yaml").scenario.published
    return {row.row: row.model_dump() for row in rows}


def _label(figures: Figures) -> str:
    return str(figures.document["label"])


def _measured(part: Part, figures: Figures) -> Iterator[str]:
    run, result = figures.run.folder.run(), figures.document
    cells = result["cells"]
    bad = [cell for cell in cells if cell["status"] != "ok"]
    repeats = Counter(cell["slug"] for cell in figures.cells).values()
    times = " to ".join(str(n) for n in sorted({min(repeats), max(repeats)})) if repeats else "no"
    slugs = len({cell.slug for cell in run.order})
    because = "; ".join(dict.fromkeys(one["finding"] for one in result["reasons"]))
    verdict = f"{result['verdict']} ({because})" if because else result["verdict"]
    yield f"Label: `{result['label']}`; verdict: {verdict}"
    reasons = Counter(f"{cell['status']}: {_first_line(cell)}" for cell in bad)
    others = [f"{n} {reason}" for reason, n in reasons.items()]
    each = f"{slugs} cells × {times} repetitions" if times != "1" else f"{slugs} cells"
    yield "; ".join([f"{each}: {len(cells) - len(bad)} of {len(run.order)} ok", *others])
    yield _made_with(figures)
    took = datetime.fromisoformat(run.ended or "") - datetime.fromisoformat(run.started or "")
    yield f"Wall time: {round(took.total_seconds() / 60)} min"
    if changed := _changed(part, figures.run):
        yield f"The scenario has changed since this run: {', '.join(f'`{one}`' for one in changed)}"


def _made_with(figures: Figures) -> str:
    """The run, and with which latlab, images, kernels and QEMU it was made, as its folder has them."""
    run = figures.run.folder.run()
    versions = run.versions
    qemu = dict.fromkeys(cell["qemu"] for cell in figures.cells if cell.get("qemu"))
    images = [f"{name} {digest[:12]}" for name, digest in versions.images.items()]
    parts = (
        f"Run `{run.run}`: latlab {versions.latlab}, commit {versions.commit or 'not recorded'}",
        f"images {', '.join(images) or 'not recorded'}",
        f"kernels {', '.join(_kernels(figures))}",
        f"QEMU {', '.join(qemu)}",
    )
    return "; ".join(parts)


def _changed(part: Part, run: Run) -> list[str]:
    """The keys of the scenario that differ from those of the run's own copy, but for its words."""
    copy = run.folder.path / "scenario.yaml"
    if not copy.exists():
        return []
    now, then = (
        yaml.safe_load(path.read_text(encoding="utf-8")) for path in (ROOT / f"scenarios/{part.scenario}.yaml", copy)
    )
    keys = dict.fromkeys([*now, *then])
    return [
        key for key in keys if key not in ("description", "headline", "published") and now.get(key) != then.get(key)
    ]


def _first_line(cell: Mapping[str, Any]) -> str:
    """Why the cell was not measured, without the logs that may follow."""
    what: str = (cell["reason"] or {}).get("what", "no reason")
    return what.partition("\n")[0]


def _kernels(figures: Figures) -> list[str]:
    found: dict[str, None] = {}
    for folder in figures.run.folder.cells():
        for host, facts in folder.facts("before").items():
            release = facts.get("kernel", {}).get("release")
            if release and host.startswith(("board", "vm")):
                found[f"{host.rstrip('0123456789')} {release}"] = None
    return list(found)


def write_pictures(part: Part, figures: Figures, folder: Path) -> list[str]:
    """Write the part's pictures that the run has, with few colours. Return the names of those that are there now."""
    folder.mkdir(parents=True, exist_ok=True)
    there = []
    for picture in part.pictures:
        path = folder / f"{picture.name}.png"
        try:
            if chart := picture.draw(figures):
                _write_picture(chart, caption(figures), path)
            else:
                print(f"{part.scenario}: the run has nothing to draw for {path.name}; an older one stays")
        except LabError as error:
            print(f"{part.scenario}: {path.name} is not written, an older one stays: {error}")
        if path.exists():
            there.append(picture.name)
    return there


def _write_picture(chart: Plotted, said: str, path: Path) -> None:
    with Image.open(io.BytesIO(figure_bytes(chart.figure(said), "png"))) as drawn:
        # By how often they occur, as by default, a thin line would get the colour of a wide one.
        drawn.convert("RGB").quantize(_COLOURS, Image.Quantize.MAXCOVERAGE, kmeans=1).save(path, optimize=True)
    if path.stat().st_size > MOST_BYTES:
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB, more than {MOST_BYTES // 1000} kB")


def _sections(path: Path) -> dict[str, str]:
    return dict(_SECTION.findall(path.read_text(encoding="utf-8"))) if path.exists() else {}


def _summary(pages: Path) -> str:
    """The page of all claims, from what the other pages have."""
    rows: list[tuple[str, ...]] = []
    lines: list[str] = []
    verdicts: list[tuple[str, str]] = []
    minutes, missing = 0, []
    for experiment in FIVE:
        path = pages / f"{experiment.name}.md"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        minutes += sum(map(int, re.findall(r"^- Wall time: (\d+) min", text, re.MULTILINE)))
        link = f"[{experiment.title}]({experiment.name}.md)" if text else experiment.title
        claims: list[list[str]] = []
        for part in experiment.parts:
            there = _sections(path).get(part.scenario, "")
            listed = _CLAIM.findall(there.partition("### Claims\n")[2].partition("###")[0])
            claims += [one.split(" | ") for one in listed]
            verdicts += [(one, part.scenario) for one in re.findall(r"verdict: (\w+)", there)]
            if not listed:
                missing.append(part.scenario)
                claims.append(["–", "–", f"not measured yet: `make experiments ONLY={part.scenario}`", "–"])
        answers = Counter(one[-1].strip("*") for one in claims)
        rows.append((link, *(str(answers[one] or "–") for one in _ANSWERS)))
        lines += ["", f"## {link}", "", *_markdown(_CLAIMS, claims)]
    hours = f"{minutes / 60:.1f} h" if minutes >= 90 else f"{minutes} min"
    unmeasured = f"; not measured yet: {', '.join(missing)}" if missing else ""
    others = ", ".join(f"{name} is {verdict}" for verdict, name in verdicts if verdict != "trusted")
    head = HEAD.format(
        scenarios=sum(len(one.parts) for one in FIVE),
        hours=hours,
        cpus=os.cpu_count(),
        unmeasured=unmeasured,
        table="\n".join(_markdown(("experiment", *_ANSWERS), rows)),
        verdicts=f"latlab's verdict of every run is *trusted*{f', but {others}' if others else ''}.",
    )
    return "\n".join([head.rstrip("\n"), *lines, ""])
