"""The page's series are marked: seen in a real browser, by pointer, by keyboard, and in words."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest

from latlab.report.build import write_report
from support.report.marked import LATE_SENDS, SPIKES, STALLS, write_marked_run
from support.report.page import Element, acted, body, charts, opened

EPISODES = STALLS + LATE_SENDS + len(SPIKES) + 1


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(write_marked_run(tmp_path_factory.mktemp("runs") / "marked"), formats=())


def series(dom: str) -> Element:
    (found,) = [chart for chart in charts(dom) if chart["data-chart"] == "series"]
    return found


def told(dom: str) -> Any:
    return json.loads(html.unescape(body(dom)["data-told"]))


def test_every_episode_is_marked_every_cut_is_hatched_and_a_chosen_window_is_there(page: Path) -> None:
    dom = opened(page)
    assert body(dom)["data-ready"] == "true"
    chart = series(dom)
    assert int(chart["data-marks"]) == EPISODES
    assert (chart["data-cuts"], chart["data-chosen"]) == ("1", "1")
    assert 5 < len(chart["data-letters"]) < EPISODES


def test_the_only_one_of_its_class_has_a_letter_next_to_many_of_another(page: Path) -> None:
    """A stall every 100 ms leaves no room between letters; where the first of them stands is the only path change."""
    head, start, rest = page.read_text().partition('id="marks">')
    text, end, tail = rest.partition("</script>")
    marks = json.loads(text)
    episodes = next(iter(marks["streams"]["control"].values()))["episodes"]
    second, many = 10**9, 120
    told: dict[str, Any] = {"text": {}, "where": {}}
    numbers = list(range(100, 100 + many))
    at = [3 * second + second // 10 * one for one in range(many)]
    episodes["stall"] = {"of": many, "number": numbers, "from": at, "length": [second // 1000] * many, **told}
    episodes["path_change"] = {"of": 1, "number": [99], "from": [3 * second], "length": [second // 1000], **told}
    crowded = page.with_name("crowded.html")
    crowded.write_text(head + start + json.dumps(marks) + end + tail)
    letters = series(opened(crowded))["data-letters"]
    assert letters.count("H") == 1 and letters.count("C") == 1 and letters.count("S") > 5


def test_in_a_metric_that_ends_before_nothing_of_what_came_later_is_marked(page: Path) -> None:
    chart = series(opened(page, "#metric-wakeup"))
    assert (int(chart["data-marks"]), chart["data-cuts"]) == (LATE_SENDS, "1")
    assert int(series(opened(page, "#metric-path"))["data-marks"]) == EPISODES - LATE_SENDS


def test_who_does_not_see_the_marks_is_told_of_them(page: Path) -> None:
    (label,) = re.findall(r'aria-label="(series of latency of .*?)"', html.unescape(opened(page)))
    assert (
        f"; marked: {STALLS} × Stall, {LATE_SENDS} × Late sender, {len(SPIKES)} × Unexplained, 1 × Clock swing" in label
    )
    assert label.endswith("1 interval cut from the clean windows, 1 interval user-defined")


def test_the_legend_names_each_class_once_with_its_letter(page: Path) -> None:
    dom = opened(page)
    legend = re.search(r'<div class="legend marks".*?</div></div>', dom, re.DOTALL)
    assert legend
    said = re.findall(r"<text[^>]*>(.)</text></svg>([^<]+)<span class=\"quiet\">(.*?)</span>", legend[0])
    assert said == [
        ("S", "Stall", str(STALLS)),
        ("A", "Late sender", str(LATE_SENDS)),
        ("?", "Unexplained", str(len(SPIKES))),
        ("C", "Clock swing", "1"),
    ]
    assert "cut from the clean windows" in legend[0] and "user-defined window" in legend[0]


def test_a_class_of_the_legend_is_hidden_and_shown_again(page: Path) -> None:
    script = """const seen = [];
      const buttons = [...document.querySelectorAll('.legend.marks button')];
      const button = buttons.find((one) => one.textContent.includes('Late'));
      for (const _ of [1, 2]) {
        button.click();
        await new Promise((done) => setTimeout(done, 60));
        seen.push([document.querySelector('.series').dataset.marks, button.getAttribute('aria-pressed')]);
      }
      document.body.dataset.told = JSON.stringify(seen);"""
    assert told(acted(page, script)) == [[str(EPISODES - LATE_SENDS), "false"], [str(EPISODES), "true"]]


STEPS = """const seen = [];
  const say = () => seen.push(document.querySelector('.mark-told').textContent);
  const place = document.querySelector('.charts');
  const press = async (key) => {
    place.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
    await new Promise((done) => setTimeout(done, 60));
    say();
  };
  await press('n'); await press('n'); await press('p'); await press('p'); await press('0');
  document.querySelector('[aria-label^="Next mark"]').click();
  say();
  document.body.dataset.told = JSON.stringify(seen);"""


def test_keys_and_buttons_go_from_mark_to_mark_and_say_which_it_is(page: Path) -> None:
    dom = acted(page, STEPS)
    first, second, again, last, reset, clicked = told(dom)
    assert first.startswith(f"1 of {EPISODES}, all, at 1.5 s: Unexplained: 1 packet ")
    assert second.startswith(f"2 of {EPISODES}, all, at 2.5 s: Unexplained: ")
    assert again == first == clicked and reset == ""
    assert last.startswith(f"{EPISODES} of {EPISODES}, all, at 19 s: Unexplained: ")
    assert int(series(dom)["data-marks"]) == 1


POINT = """const over = document.querySelector('.series .u-over');
  const box = over.getBoundingClientRect();
  const seen = [];
  for (const at of SECONDS) {
    const x = box.left + ((at - LOW) / (HIGH - LOW)) * box.width;
    const to = {clientX: x, clientY: box.top + 40, movementX: 9, bubbles: true};
    over.dispatchEvent(new MouseEvent('mouseenter', to));
    over.dispatchEvent(new MouseEvent('mousemove', to));
    await new Promise((done) => setTimeout(done, 60));
    const tip = document.querySelector('.series .tip');
    seen.push(tip.hidden ? '' : tip.textContent);
  }
  document.body.dataset.told = JSON.stringify(seen);"""


def test_the_pointer_brings_up_what_happened_and_why_it_was_cut(page: Path) -> None:
    script = POINT.replace("SECONDS", "[17.5, 12, 2.2, 18.5]").replace("LOW", "0.9").replace("HIGH", "20.1")
    stall, cut, chosen, nothing = told(acted(page, script))
    assert stall.startswith("S  Stall: stall of 23.")
    assert "C  Clock swing: all latencies moved by up to +" in cut
    assert cut.endswith("cut from the clean windows for this reason")
    assert chosen == "2s to 5s, user-defined: before it <swung>"
    assert nothing == ""


def test_the_cuts_stand_below_the_table_of_windows_with_their_reasons(page: Path) -> None:
    text = page.read_text()
    below = re.search(r"<caption>Whole run and clean windows.*?</table>(.*?)</section>", text, re.DOTALL)
    assert below and "all latencies moved by up to +" in below[1]


@pytest.mark.parametrize("window", [1280, 400])
def test_marks_and_their_legend_fit_into_the_window(page: Path, window: int) -> None:
    script = """document.body.dataset.told = JSON.stringify(
      [document.documentElement.scrollWidth, document.documentElement.clientWidth]);"""
    needed, room = told(acted(page, script, f"--window-size={window},1000"))
    assert needed <= room
