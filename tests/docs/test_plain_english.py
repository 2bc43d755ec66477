"""Prose of the documentation has the field's terms, as docs/reference/glossary.md defines them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from support.sources import modules, nodes

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(one for one in (ROOT / "docs").rglob("*.md") if "experiments" not in one.parts)]
INSTEAD = {
    r"\b(?:is|are|was) told\b(?! (?:apart|from))": "is reported, logged, shown",
    r"\btells? of\b": "reports",
    r"\bmend(?:s|ed|ing)?\b": "fix, patch",
    r"\bknock(?:s|ed|ing)?\b": "doorbell timestamp",
    r"without a word": "silently",
    r"\b(?:by turns|in turn)\b": "alternately",
    r"\bforeseen\b": "expected",
    r"\black(?:s|ed|ing)?\b": "missing, without",
    r"\bgrew most\b": "dominant stage",
    r"\bof lateness\b": "share of the delay",
    r"\bn is worth\b": "effective sample size",
    r"\blate: not told\b": "single late packets cannot be told from the tail",
    r"\blate begins at\b": "lateness threshold",
    r"\bchosen by hand\b": "user-defined",
    r"\bstray\b": "foreign packet, unmatched packet",
    r"\bst(?:and|ood|ands|anding) still\b": "stall, stop",
    r"\bheld (?:up|back|against)\b": "delayed, compared with",
    r"\bpacket's way\b": "path",
    r"\b(?:both|either) ways?\b": "both directions, either direction",
    r"\bon (?:its|their|the) way\b": "on the path, in flight",
    r"\bput back\b": "restore",
    r"\b(?:stretch|stretches)\b": "interval",
    r"\bsomebody\b|\bwho(?:m)?ever\b": "foreign, the thread or program by name",
    r"\bcombs?\b": "periodicity",
    r"\bpromis(?:e|es|ed)\b": "guarantee, bound",
    r"\b(?:inlets?|outlets?|intakes?)\b": "receiver, transmitter",
    r"\brescue[sd]?\b": "recover",
    r"\bshared page\b": "shared clock page",
    r"\bpackets? (?:that )?(?:was|were|are|is)? ?held\b|\bheld (?:the )?packets\b": "queued, delayed",
    r"\bought to\b": "must, expected",
    r"\bbeside\b": "with, next to, under (load), in addition to",
    r"\bwhole copy\b": "complete copy",
    r"\bnothing bounds\b": "is not bounded",
    r"\bnobody\b": "no program, no socket, by name",
    r"\b(?:says?|said) so\b": "reports it, notes it",
    r"\btells?\b(?! apart)": "reports, shows",
    r"\bto be known\b|\bto know:": "note",
    r"\b(?:anew|for ever)\b": "again, forever",
    r"\bin place of\b": "instead of",
    r"\b(?:as a rule|oftener)\b": "usually, more often",
    r"\ball the same\b": "still",
    r"\blook whether\b": "check that",
    r"\b(?:meant|due) to leave\b": "to leave, by the schedule",
    r"\b(?:come|came) to (?:no|an|its|their) end\b": "finish",
    r"\bof (?:its|their|your|our) own\b(?! [a-z])": "separate, dedicated, different",
    r"\bby (?:itself|themselves)\b": "alone, automatically, separately",
    r"\bmeanwhile\b": "during that time",
    r"\bwhatever\b": "regardless of, for any",
    r"\b(?:is|are) gone\b": "no longer exists, has ended",
    r"\b(?:goes?|went) on\b(?! (?:the|a|an|its)\b)": "continues",
    r"\bonce more\b": "again",
    r"\bfor good\b": "permanently",
    r"\bin no (?:figure|statistic|metric|interval|recording)s?\b": "not in any figure",
    r"\b(?:is|are|was|were) in none of\b": "not in any of",
    r"\b(?:it|that|this|which) is no (?!longer)": "is not a",
    r"\bstruck\b|\bturned round\b|\bcame to\b": "hit, reversed, reached",
    r"\blooked? at first\b|\bto look for:|\bgot round\b": "expected, avoided",
    r"\bfate\b|\bheard\b": "what happened, received",
    r"\bknown truth\b": "known anomalies",
    r"\bby hand\b": "manually",
    r"\bends? in order\b": "ends cleanly",
    r"\b(?:what|who)ever (?:it|they) (?:is|are)\b": "for any",
}
"""What must not be in prose → what to write instead."""
ANY = re.compile("|".join(INSTEAD).replace(" ", r"\s+"), re.IGNORECASE)
"""All of them at once: few texts have any."""
_BLOCK = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"^ {4}(?=\S).*$", re.MULTILINE)
_DECLARED = re.compile(
    r"^\| (?:(?:id \| )?rule \| severity|\| class \| what it is|class \| found by|stop \||from → to \|).*(?:\n\|.*)*",
    re.MULTILINE,
)
"""Tables in the words of the code: rules, anomaly classes, stops and stages."""
_MARKUP = re.compile(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}|<[^>]*>", re.DOTALL)
_SCRIPT_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_SCRIPT_TEXT = re.compile(r'(class: )?("[^"\n]*"|`[^`]*`)')
_INLINE = re.compile(r"``.+?``|`[^`]+`|\]\([^)]*\)|(?<!\*)\*[^*\n]+\*(?!\*)", re.DOTALL)


def blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def prose(text: str) -> str:
    """The text with code, link targets and quoted (emphasised) output blanked, line numbers kept."""
    for pattern in (_BLOCK, _INDENTED, _DECLARED, _INLINE):
        text = pattern.sub(blank, text)
    return text


def found(path: Path) -> Iterator[str]:
    text = prose(path.read_text(encoding="utf-8"))
    for pattern, instead in INSTEAD.items():
        # A phrase may go on in the next line.
        for match in re.finditer(pattern.replace(" ", r"\s+"), text, re.IGNORECASE):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{path.relative_to(ROOT)}:{line}: {' '.join(match[0].split())!r}: write {instead}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_prose_has_the_terms_of_the_field(path: Path) -> None:
    assert list(found(path)) == []


RECORDED = {
    "shared page",
    "`lateness`, `wakeup`, `gates`: `promised`",
    "the clock bound is small beside the latency",
    "coalescing is small beside the latency",
    "PTP has CPUs of its own",
    "interrupts have CPUs of their own",
    "the agents came to their end",
}
"""Words of files that older runs, images and scenarios have."""


def printed(path: Path) -> Iterator[tuple[int, str]]:
    """(line, text) of every string of several words that is no docstring: what may be printed."""
    alone = {id(node.value) for node in nodes(path) if isinstance(node, ast.Expr)}
    for node in nodes(path):
        if not isinstance(node, ast.Constant) or id(node) in alone:
            continue
        if isinstance(node.value, str) and " " in node.value and node.value not in RECORDED:
            yield node.lineno, node.value


def test_what_is_printed_has_the_terms_of_the_field() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {match[0]!r}: write {instead}"
        for path in modules()
        for line, text in printed(path)
        if ANY.search(text)
        for pattern, instead in INSTEAD.items()
        if (match := re.search(pattern, text, re.IGNORECASE))
    ]
    assert wrong == []


def test_help_has_the_terms_of_the_field() -> None:
    """What docstrings of the command line say is what `--help` and the manual pages print."""
    helps = [
        (path.name, node.name, ast.get_docstring(node) or "")
        for path in sorted((ROOT / "src/latlab/cli").glob("*.py"))
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef)
    ]
    assert list(wrong_in(helps)) == []


def test_the_page_has_the_terms_of_the_field() -> None:
    """Texts of the templates, and strings of several words in the page's scripts."""
    report = ROOT / "src/latlab/report"
    texts = [
        (path.name, "", _MARKUP.sub(" ", path.read_text(encoding="utf-8")))
        for path in sorted((report / "templates").glob("*.j2"))
    ]
    for path in sorted((report / "assets").glob("*.js")):
        if not path.name.startswith("uPlot"):
            script = _SCRIPT_COMMENT.sub(" ", path.read_text(encoding="utf-8"))
            found_in = _SCRIPT_TEXT.findall(script)
            texts += [(path.name, "", text) for is_class, text in found_in if " " in text and not is_class]
    assert list(wrong_in(texts)) == []


def wrong_in(texts: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    for path, name, text in texts:
        for pattern, instead in INSTEAD.items() if ANY.search(text) else ():
            if match := re.search(pattern.replace(" ", r"\s+"), text, re.IGNORECASE):
                yield f"{path}: {name}: {match[0]!r}: write {instead}"


@pytest.mark.parametrize("path", sorted((ROOT / "scenarios").glob("*.yaml")), ids=lambda path: path.stem)
def test_ready_made_scenarios_have_the_terms_of_the_field(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    said = [line.partition("#")[2] or line for line in lines if "#" in line or line.startswith("description: ")]
    text = _INLINE.sub(blank, "\n".join(said))
    assert [
        f"{match[0]!r}: write {instead}" for pattern, instead in INSTEAD.items() if (match := re.search(pattern, text))
    ] == []


def test_code_and_output_are_not_scanned() -> None:
    assert re.search("knock", prose("a knock `knock`\n```\nknock\n```\n"))
    assert not re.search("knock", prose("a `knock`\n\n```json\nknock\n```\n    knock = 1\n[it](knock.md)\n"))


def test_a_mean_is_called_so_in_all_output_and_in_examples_of_it() -> None:
    """Other programs' files are read with their own words."""
    ours = [path for path in modules() if "imports" not in path.parts]
    assert len(ours) > 100
    wrong = [f"{path.name}: {ast.unparse(node)}" for path in ours for node in nodes(path) if _is_avg(node)]
    wrong += [path.name for path in PAGES if AVG.search(path.read_text(encoding="utf-8"))]
    assert wrong == []


AVG = re.compile(r"\bavg\b", re.IGNORECASE)


def _is_avg(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and AVG.search(node.value) is not None
