"""The page for everyone: by keyboard, by ear, in the dark, on a narrow screen, on paper."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from latlab.evaluation.run import make_result
from latlab.report.build import write_report
from support.report.browser import Browser, violations
from support.report.marked import write_marked_run


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as found:
        yield found


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, True)], ids=["wide and light", "narrow and dark"])
def test_axe_finds_nothing_wrong_with_the_page_of_a_full_run(
    browser: Browser, matrix_run: Path, width: int, dark: bool
) -> None:
    browser.show(matrix_run / "report.html", width=width, dark=dark)
    assert browser.run("matchMedia('(prefers-color-scheme: dark)').matches") is dark
    assert violations(browser) == []


def test_axe_finds_nothing_wrong_with_a_run_of_several_streams_and_limits(browser: Browser, reported_run: Path) -> None:
    browser.show(reported_run / "report.html")
    assert violations(browser) == []


def test_axe_sees_what_is_wrong(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "wrong.html"
    rows = "".join(f"<tr><th>{name}</th><td>1</td></tr>" for name in ("a", "b", ""))
    wrong = f"<button></button><img src='data:,'><table><tbody>{rows}</tbody></table><p id=p></p><p id=p></p>"
    page.write_text(f"<!doctype html><title>x</title><body data-ready=''>{wrong}</body>")
    browser.run("undefined")
    page.write_text(page.read_text() + "<script>document.body.dataset.ready = 'true'</script>")
    browser.show(page)
    found = {one.partition(":")[0] for one in violations(browser)}
    # Of the rows the last one, too, which differs from the others in having no text there.
    assert {"button-name", "image-alt", "html-has-lang", "empty-table-header", "two elements have the id p"} <= found


FOCUSED = """(() => {
  const one = document.activeElement;
  if (one === document.body) return null;
  const shown = one.matches("input[type=radio]") ? one.closest("label") : one;
  const { outlineStyle, outlineWidth } = getComputedStyle(shown);
  const { width, height, left, right } = shown.getBoundingClientRect();
  one.dataset.reached = "";
  return { tag: one.tagName, outlined: outlineStyle !== "none" && parseFloat(outlineWidth) > 0,
    seen: width > 0 && height > 0 && right > 0 && left < innerWidth, text: shown.textContent.slice(0, 40) };
})()"""

LEFT_OUT = """[...document.querySelectorAll("a[href], button, summary, input, [tabindex='0']")]
  .filter((one) => one.checkVisibility() && !("reached" in one.dataset))
  .filter((one) => !(one.matches("input[type=radio]") && !one.checked))
  .map((one) => one.outerHTML.slice(0, 100))"""


def test_every_control_is_reached_with_the_tab_key_and_is_seen_to_have_the_focus(
    browser: Browser, reported_run: Path
) -> None:
    browser.show(reported_run / "report.html")
    found: list[dict[str, Any]] = []
    for _ in range(500):
        browser.press("Tab", 9)
        focused = browser.run(FOCUSED)
        if focused is None:
            break
        found.append(focused)
    assert [one for one in found if not (one["outlined"] and one["seen"])] == []
    assert browser.run(LEFT_OUT) == []
    assert {"A", "BUTTON", "SUMMARY", "INPUT", "DIV"} <= {one["tag"] for one in found}


def test_the_arrows_choose_another_metric(browser: Browser, reported_run: Path) -> None:
    browser.show(reported_run / "report.html")
    browser.run("document.querySelector('input[name=metric]:checked').focus()")
    browser.press("ArrowRight", 39)
    assert browser.run("document.querySelector('input[name=metric]:checked').value") == "latency_user"
    assert browser.run("document.querySelector('[data-for-metric=latency_user]').hidden") is False


CUT = """[...document.querySelectorAll("table, svg, canvas, pre, figcaption, p, li, h1, h2, h3")]
  .filter((one) => one.checkVisibility() && !one.closest(".scroll, pre"))
  .map((one) => [one.getBoundingClientRect().right, one]).filter(([right]) => right > innerWidth + 1)
  .map(([right, one]) => `${right} ${one.outerHTML.slice(0, 120)}`)"""


@pytest.mark.parametrize("width", [400, 720, 1280])
def test_nothing_hangs_over_the_edge(browser: Browser, matrix_run: Path, width: int) -> None:
    browser.show(matrix_run / "report.html", width=width)
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    assert browser.run(CUT) == []


CAPTIONS = """[...document.querySelectorAll("caption")].filter((one) => one.checkVisibility())
  .map((one) => [one, one.closest(".scroll")])
  .flatMap(([one, box]) => [0, box ? box.scrollWidth : 0].map((to) => {
    if (box) box.scrollLeft = to;
    const { left, right } = one.getBoundingClientRect();
    return [left, right, one.textContent.slice(0, 60)];
  })).filter(([left, right]) => left < -1 || right > innerWidth + 1)"""
WORDS = """[...document.querySelectorAll(".scroll:has(.words)")].filter((one) => one.checkVisibility())
  .map((one) => [one.scrollWidth, one.clientWidth, one.textContent.slice(0, 60)])"""


def test_on_a_narrow_screen_captions_and_tables_of_words_are_read_without_scrolling(
    browser: Browser, matrix_run: Path
) -> None:
    browser.show(matrix_run / "report.html", width=400)
    browser.run("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    assert browser.run(CAPTIONS) == []
    words = browser.run(WORDS)
    assert len(words) > 2 and [one for one in words if one[0] > one[1] + 1] == []
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")


INTERVALS = """(() => {
  const [table] = [...document.querySelectorAll("table")]
    .filter((one) => /95 % intervals/.test(one.caption?.textContent));
  const p50 = [...table.querySelectorAll("td[data-of='p50']")];
  const name = [...table.querySelectorAll("tbody th:first-child")];
  const high = (one) => one.getBoundingClientRect().height / parseFloat(getComputedStyle(one).lineHeight);
  return [
    table.parentElement.scrollWidth - table.parentElement.clientWidth,
    p50.length, Math.max(...p50.map((one) => one.getBoundingClientRect().right)),
    getComputedStyle(p50[0], "::before").content, Math.max(...name.map(high)),
  ];
})()"""


def test_on_a_narrow_screen_every_interval_is_read_with_its_name_below_its_cell(
    browser: Browser, matrix_run: Path
) -> None:
    browser.show(matrix_run / "report.html", width=400)
    over, count, right, before, lines = browser.run(INTERVALS)
    assert over <= 1 and count > 6 and right < 400
    assert "p50" in before and lines < 2.5


LIMITS = """[...document.querySelectorAll("caption")].filter((one) => one.textContent === "Limits")
  .map((one) => one.closest(".scroll"))
  .map((box) => [box.scrollWidth - box.clientWidth,
    [...box.querySelectorAll(".bad, td[data-of=limit], td[data-of=actual]")]
    .map((one) => one.firstChild).map((text) => { const range = document.createRange(); range.selectNode(text);
      return new Set([...range.getClientRects()].map((rect) => Math.round(rect.top))).size; })])"""


def test_on_a_narrow_screen_limits_are_read_with_their_figures_a_line_each(
    browser: Browser, reported_run: Path
) -> None:
    browser.show(reported_run / "report.html", width=400)
    ((over, lines),) = browser.run(LIMITS)
    assert over <= 1
    assert len(lines) > 2 and set(lines) == {1}


BROKEN_WORDS = """[...document.querySelectorAll("thead th")].filter((one) => one.checkVisibility())
  .flatMap((one) => [...one.childNodes].filter((node) => node.nodeType === 3)).flatMap((node) =>
    [...node.textContent.matchAll(/[\\p{L}\\d.]+/gu)].filter((word) => {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      return new Set([...range.getClientRects()].map((rect) => Math.round(rect.top))).size > 1;
    }).map((word) => word[0]))"""


def test_on_paper_no_heading_of_a_table_is_broken_within_a_word(browser: Browser, slow_matrix_run: Path) -> None:
    """On landscape A4 less its margins, 277 mm, of which a CSS pixel is 1/96 inch."""
    browser.show(slow_matrix_run / "report.html", width=1047)
    browser.run("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    try:
        browser("Emulation.setEmulatedMedia", media="print")
        assert browser.run("document.querySelectorAll('thead th').length") > 20
        assert browser.run(BROKEN_WORDS) == []
    finally:
        browser("Emulation.setEmulatedMedia", media="")


WIDER = """[...document.querySelectorAll("main *, header *")].filter((one) => one.checkVisibility())
  .map((one) => [Math.round(one.getBoundingClientRect().right), one])
  .filter(([right]) => right > document.documentElement.clientWidth + 1)
  .map(([right, one]) => `${right}: ${one.outerHTML.slice(0, 100)}`)"""


def test_on_paper_every_column_has_room(browser: Browser, matrix_run: Path, tmp_path: Path) -> None:
    browser.show(matrix_run / "report.html", width=718)  # A4 upright less 1 cm at each side, 96 to the inch
    browser("Emulation.setEmulatedMedia", media="print")
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run(WIDER) == []
    browser("Emulation.setEmulatedMedia", media="")
    if shutil.which("pdftotext"):
        pdf = browser.print(tmp_path / "page.pdf")
        text = subprocess.run(["pdftotext", "-layout", pdf, "-"], capture_output=True, text=True, check=True).stdout
        assert text.count("macvtap") > 100


BROKEN_NUMBERS = r"""[...document.querySelectorAll("td")].filter((one) => one.checkVisibility())
  .flatMap((one) => [...one.childNodes]).filter((one) => one.nodeType === 3 && /^\s*-?[\d.]+\s*$/.test(one.data))
  .filter((one) => {
    const range = document.createRange();
    range.selectNodeContents(one);
    return new Set([...range.getClientRects()].map((line) => Math.round(line.top))).size > 1;
  }).map((one) => one.data)"""


def test_on_paper_no_number_is_broken_between_its_digits(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """In the widest tables: of windows, several of them user-defined."""
    run = write_marked_run(tmp_path_factory.mktemp("windows") / "run")
    chosen = "windows:\n  - {from: 1s, to: 2s, why: the first of them}\n  - {from: 2s, to: 4s}\n"
    run.scenario_path.write_text(f"{run.scenario_path.read_text()}{chosen}")
    make_result(run)
    browser.show(write_report(run, formats=()), width=718)
    browser("Emulation.setEmulatedMedia", media="print")
    try:
        browser.run("dispatchEvent(new Event('beforeprint'))")
        assert browser.run("document.querySelectorAll('.numbers td').length") > 20
        assert browser.run(BROKEN_NUMBERS) == []
        assert browser.run(WIDER) == []
    finally:
        browser("Emulation.setEmulatedMedia", media="")


INSIDE = """[...document.querySelectorAll("details:not([open]) > :not(summary, br)")]
  .filter((one) => !one.closest("[hidden]"))
  .map((one) => [one.parentElement.matches(".screen"), one.checkVisibility({ contentVisibilityAuto: true })])"""


def test_on_paper_what_is_closed_is_open_without_a_script_but_for_what_is_for_reference(
    browser: Browser, matrix_run: Path
) -> None:
    browser.show(matrix_run / "report.html")
    on_screen = browser.run(INSIDE)
    assert {seen for _, seen in on_screen} == {False} and {screen for screen, _ in on_screen} == {False, True}
    browser("Emulation.setEmulatedMedia", media="print")
    wanted, until = {(False, True), (True, False)}, time.monotonic() + 30
    # A busy browser styles the page for paper a little after it has said that it is to be.
    while (printed := {tuple(one) for one in browser.run(INSIDE)}) != wanted and time.monotonic() < until:
        time.sleep(0.05)
    assert printed == wanted
    browser("Emulation.setEmulatedMedia", media="")


def test_before_printing_it_is_opened_and_closed_again_afterwards(browser: Browser, matrix_run: Path) -> None:
    closed = "document.querySelectorAll('details:not([open], .screen)').length"
    browser.show(matrix_run / "report.html")
    before, opened = browser.run(closed), browser.run("document.querySelectorAll('details[open]').length")
    assert before > 10 and opened > 0
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run(closed) == 0
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert browser.run(closed) == before
    assert browser.run("document.querySelectorAll('details[open]').length") == opened


WIDTHS = """Object.fromEntries(["series", "histogram", "ccdf"].map((kind) => [kind, Math.min(
  ...[...document.querySelectorAll(`.${kind} .u-wrap`)].map((one) => one.getBoundingClientRect().width))]))"""


@pytest.mark.parametrize("width", [400, 1280])
def test_charts_are_laid_out_for_paper_from_a_window_of_any_width(
    browser: Browser, matrix_run: Path, width: int
) -> None:
    """What is drawn 350 pixels wide fills less than half of a page, and letters in it are lost."""
    browser.show(matrix_run / "report.html", width=width)
    before = browser.run(WIDTHS)
    browser.run("dispatchEvent(new Event('beforeprint'))")
    on_paper = browser.run(WIDTHS)
    assert on_paper["series"] > 700 and on_paper["histogram"] > 190 and on_paper["ccdf"] > 800
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert browser.run(WIDTHS) == before


@pytest.mark.skipif(not shutil.which("pdftotext"), reason="pdftotext reads the pages")
def test_the_printed_pages_have_the_tables_that_are_closed_on_screen(
    browser: Browser, matrix_run: Path, tmp_path: Path
) -> None:
    browser.show(matrix_run / "report.html")
    pdf = browser.print(tmp_path / "page.pdf")
    text = subprocess.run(["pdftotext", "-layout", pdf, "-"], capture_output=True, text=True, check=True).stdout
    assert "As a table" in text and "delay variation (RFC 5481)" in text
    assert "(not printed)" in text and "Permission is hereby granted" not in text
