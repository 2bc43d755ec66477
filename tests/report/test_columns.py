"""Tables of every verb at the widths that terminals have: nothing is cut, broken inside its column, or too wide."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import pytest
from rich.console import Console

from latlab import listing
from latlab.explain import print_ids, print_topics, topics
from latlab.import_listing import print_formats
from latlab.recordings.run_folder import RunSummary
from latlab.report.columns import print_table, table_lines
from latlab.report.document import Group, OneOf, Table
from latlab.testbed.doctor import DoctorFinding
from latlab.testbed.images import Image

WIDTHS = (80, 100, 140)
NAME = "20261127-000221-two-guests-on-a-board-54d3"
SENTENCE = "enable virtualisation in the firmware, load kvm, run with sudo; without it guests are emulated"
SOURCES = Path(listing.__file__).parent


def lines_of(show: Callable[[Console], None], width: int) -> list[str]:
    """What is printed on a terminal of so many columns."""
    file = io.StringIO()
    show(Console(file=file, width=width, force_terminal=True, color_system=None))
    return file.getvalue().splitlines()


def check(lines: Sequence[str], width: int, texts: Sequence[str]) -> None:
    """Check that no line is too wide, and that each text is in one of them; a long one in lines that follow."""
    assert max(map(len, lines)) <= width
    flowing = " ".join(" ".join(lines).split())
    for text in texts:
        short = len(text) <= 40
        assert any(text in line for line in lines) if short else " ".join(text.split()) in flowing, text


def test_a_group_of_one_narrow_column_has_room_for_its_title() -> None:
    groups = [Group("idle", 0, 2), Group("flood-down", 2, 1)]
    table = Table(("p50", "max", "max", "lost"), [("1", "2", "3", "0")], range(4), groups=groups)
    assert [str(line) for line in table_lines(table, 40, 40)] == [
        "  idle    flood-down",
        "p50  max         max  lost",
        "──────────────────────────",
        "  1    2           3     0",
    ]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("names", "figures", "sentences"), list(product((1, 4), (0, 3, 9), (0, 1, 2))))
def test_a_table_of_any_shape_is_shown_whole(names: int, figures: int, sentences: int, width: int) -> None:
    headings = [
        *(f"name {one}" for one in range(names)),
        *(f"figure no. {one} of many" for one in range(figures)),
        *(f"sentence {one}" for one in range(sentences)),
    ]
    rows = [
        [
            *(f"bridge ovs-afxdp {row} {one}" for one in range(names)),
            *(f"{row}1{one}.5 … {row}9{one}.5" for one in range(figures)),
            *(f"{row}{one}: {SENTENCE}" for one in range(sentences)),
        ]
        for row in range(1, 4)
    ]
    table = Table(headings, rows, range(names, names + figures), remarks=[SENTENCE])
    lines = lines_of(lambda console: print_table(table, console), width)
    check(lines, width, [text for row in rows for text in row])
    # Texts of one row are in its order, and rows follow each other wherever they are shown.
    flowing = " ".join(lines)
    assert [flowing.index(row[-1][:12]) for row in rows] == sorted(flowing.index(row[-1][:12]) for row in rows)


def test_a_heading_over_several_columns_begins_theirs_where_those_are_narrowed() -> None:
    figures = [f"{number}00.5 … {number}99.5" for number in range(1, 5)]
    groups = [Group("idle", 1, 2), Group("loaded", 3, 2)]
    table = Table(("bridge", "p50 median", "p99 of all", "p50 median", "p99 of all"), [("tap", *figures)], range(1, 5))
    grouped = Table(table.headings, table.rows, table.figures, groups=groups)
    wide, narrow = ([line.plain for line in table_lines(grouped, width, width)] for width in (100, 60))
    assert wide[0].split() == ["idle", "loaded"]
    assert " ".join(narrow[:2]).split().count("loaded") == 2


def test_what_has_several_shapes_is_shown_in_the_first_that_fits() -> None:
    shapes = OneOf([[Table(("a" * 90, "b"), [("x", "y")])], [Table(("a" * 70,), [("x",)])]])
    assert len(lines_of(lambda console: print_table(shapes, console), 100)[0]) == 93
    assert len(lines_of(lambda console: print_table(shapes, console), 80)[0]) == 70


@pytest.mark.parametrize("width", WIDTHS)
def test_runs_are_listed_a_line_each(width: int) -> None:
    run = RunSummary(
        NAME,
        Path(NAME),
        name="two-guests-on-a-board",
        started="2026-11-27T00:02:22.191+00:00",
        ended="2026-11-27T00:32:18.342+00:00",
        status="ended",
        exit_status=4,
        verdict="untrusted",
    )
    lines = lines_of(lambda console: listing.print_runs([run] * 3, Path("runs"), console), width)
    assert max(map(len, lines)) <= width
    assert [(line.split()[0], line.split()[-1]) for line in lines[2:]] == [(NAME, "untrusted")] * 3


@pytest.mark.parametrize("width", WIDTHS)
def test_images_are_listed_a_line_each_and_how_to_build_them_again_below(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "is_current", lambda image: image.name == "debian-rt")
    kernel, built = "6.12.117+deb12-rt-amd64", "2026-11-26T08:13:41+00:00"
    images = [
        Image(name, Path("kernel"), Path("initramfs"), "", "rt", kernel, "", {}, built, 323_000_000)
        for name in ("debian-rt", "debian-standard-board")
    ]
    lines = lines_of(lambda console: listing.print_images(images, console), width)
    check(lines, width, ["debian-rt", "debian-standard-board", "2026-11-26 08:13:41", "323 MB", kernel])
    assert ["yes" if " yes" in line else "no" for line in lines if line.startswith("debian-")] == ["yes", "no"]
    assert lines[-1] == "  latlab image build debian-standard-board"


@pytest.mark.parametrize("width", WIDTHS)
def test_what_the_doctor_found_is_shown_with_its_remedy(width: int) -> None:
    findings = [
        DoctorFinding("kernel", "release", True, "6.12.117+deb12-rt-amd64"),
        DoctorFinding("kernel", "PREEMPT_RT", None, "no", "a kernel with PREEMPT_RT"),
        DoctorFinding("guests", "KVM", None, "/dev/kvm exists, but the CPU has neither vmx nor svm", SENTENCE),
        DoctorFinding("tools", "latlab-agent for aarch64", False, "missing", "`make agents`"),
    ]
    lines = lines_of(lambda console: listing.print_findings(findings, console), width)
    check(lines, width, [text for one in findings for text in (one.area, one.name, one.found, one.remedy)])
    rows = [line.split()[:2] for line in lines]
    assert ["limited", "PREEMPT_RT"] in rows


def test_what_the_doctor_found_twice_in_a_row_has_its_remedy_once() -> None:
    findings = [
        DoctorFinding("bridges", f"bridge {name}", None, "not available", "`sudo apt install qemu-system-x86`")
        for name in ("user", "tap", "xdp")
    ]
    other = DoctorFinding("bridges", "bridge ovs", None, "not available", "`sudo apt install openvswitch-switch`")
    lines = lines_of(lambda console: listing.print_findings([*findings, other], console), 140)
    assert sum("qemu-system-x86" in line for line in lines) == 1
    assert [line.split()[-2:] for line in lines[3:5]] == [["as", "above"]] * 2
    assert any("openvswitch-switch" in line for line in lines)


@pytest.mark.parametrize("width", WIDTHS)
def test_formats_and_ids_fit(width: int) -> None:
    for show in (print_formats, lambda console: print_ids(topics(), console)):
        assert max(map(len, lines_of(show, width))) <= width
    lines = lines_of(lambda console: print_topics(topics(), console), width)
    assert max(map(len, lines)) <= width


def test_no_other_module_lays_tables_out() -> None:
    """The table that a run shows live is rich's: it is drawn again and again."""
    using = {path.name for path in SOURCES.rglob("*.py") if "rich.table" in path.read_text(encoding="utf-8")}
    assert using == {"console.py"}
