"""Round trips over the payload on the page: drawn without a complaint, readable when narrow, and a table beside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from latlab.report.build import write_report
from support.report.browser import Browser, violations
from support.report.swept import figures, write_swept_run

COMPLAINTS = """window.complaints = [];
for (const kind of ["error", "unhandledrejection", "securitypolicyviolation"])
  addEventListener(kind, (one) => window.complaints.push(`${kind}: ${one.message ?? one.violatedDirective}`), true);
const said = console.error;
console.error = (...words) => (window.complaints.push(words.join(" ")), said(...words));"""
PLACES = """(() => {
  const figure = [...document.querySelectorAll(".drawn")].find((one) => one.textContent.includes("by size"));
  const plot = [...figure.children].find((one) => one.matches("div") && one.checkVisibility());
  const box = plot.getBoundingClientRect(), of = (kind) => [...plot.querySelectorAll(kind)];
  const texts = of("svg text").map((one) => one.getBoundingClientRect());
  const ends = of("svg text").filter((one) => /^(64B|32kB)$/.test(one.textContent));
  const keys = ends.map((one) => one.getBoundingClientRect());
  const middle = (one) => (one.left + one.right) / 2;
  const line = of("path[stroke*='--lost']")[0].getBoundingClientRect();
  const inked = of("path[stroke*='--cell']").filter((one) => one.getBoundingClientRect().width > 0).length;
  return { width: box.width, inked, mtu: (middle(line) - middle(keys[0])) / (middle(keys[1]) - middle(keys[0])),
    inside: texts.every((one) => one.left >= 0 && one.right <= innerWidth), texts: texts.length,
    smallest: Math.min(...texts.map((one) => one.height)), scrolls: document.body.scrollWidth > innerWidth };
})()"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_swept_run(tmp_path_factory.mktemp("runs") / "20261121-205152-payload-3f9a")
    return write_report(folder, formats=())


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as found:
        found("Page.addScriptToEvaluateOnNewDocument", source=COMPLAINTS)
        yield found


def test_label_verdict_and_frames_stand_next_to_the_figure_and_a_table_has_what_is_drawn(page: Path) -> None:
    document = page.read_text(encoding="utf-8")
    _, _, figure = document.partition("<strong>rr: Round trip, by size</strong>")
    figure = figure[: figure.index("</figure>")]
    assert "functional only · verdict: trusted" in figure
    assert "Packets larger than 1472 B at MTU 1500, 8972 B at MTU 9000 are sent in several frames." in figure
    of = [figures(32_000, mtu=1500, tuned=False, repeat=repeat)["max"] / 1000 for repeat in (1, 2)]
    _, _, table = document.partition("least … middle … greatest of the repetitions")
    assert f">{min(of):.1f} … {max(of):.1f}</td>" in table, "the table has the greatest of each repetition"


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, True)], ids=["wide and light", "narrow and dark"])
def test_it_is_readable_whatever_the_screen(browser: Browser, page: Path, width: int, dark: bool) -> None:
    browser.show(page, width=width, dark=dark)
    assert browser.run("window.complaints") == []
    found = browser.run(PLACES)
    assert found["width"] > 250 and found["inside"] and not found["scrolls"]
    assert found["smallest"] >= 10 and found["texts"] > 10
    assert found["inked"] >= 2 * 4
    # 1472 B lie between 1400 B and 2 kB on an axis from 64 B to 32 kB.
    assert 0.47 < found["mtu"] < 0.53
    if dark:
        assert violations(browser) == []
