"""`--help` of every verb: what it says, how it is laid out, and that its examples are command lines."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from latlab.cli import app
from latlab.cli.app import ENVIRONMENT, EXIT_CODES, GROUPS, IMAGE_VERBS, VERBS
from latlab.cli.help import ARGUMENTS, OPTIONS, TERM_MAX, Verbs
from latlab.model import errors
from latlab.report.sections import SECTIONS
from support.cli import ROOT, context, parse, shown, verbs

DOCS = Path(__file__).parents[2]
METAVARS = {
    *(
        "SCENARIO",
        "RUN",
        "FILE",
        "FOLDER",
        "HOST",
        "NAME",
        "ID",
        "SHELL",
        "FORMAT",
        "CONDITION",
        "FLAVOUR",
        "RELEASE",
        "ARCH",
        "RELEASE",
        "N",
        "KEY",
        "KIND",
        "WAY",
    ),
    *("WAY", "DURATION", "SIZE", "RATE", "UNIT", "PLACE", "NETWORK", "LETTERS", "FLOW", "FROM..TO", "PATH=LIMIT"),
}
ALL = sorted(verbs())
every_verb = pytest.mark.parametrize("words", ALL, ids=lambda words: " ".join(words) or "latlab")


def helped(words: tuple[str, ...], columns: int = 100) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        return f"{verbs()[words].get_help(context(words))}\n"


def printed_by(*line: str) -> str:
    """What the command line prints, as wide as the library's own tests have it."""
    ended = CliRunner().invoke(app, line)
    assert ended.exit_code == 0, ended.output
    return ended.output


def commands_in(line: str) -> list[list[str]]:
    """The command lines of latlab in one of a shell, each without the program itself."""
    return [shlex.split(one)[1:] for one in re.findall(r"latlab (?:'[^']*'|[^|<>()&;'])*", line)]


def test_the_help_lists_every_verb_in_its_group_and_order() -> None:
    groups = {heading: [entry.term for entry in entries] for heading, entries in shown(()).groups}
    assert groups.pop(OPTIONS) == ["--version", "-h, --help"]
    assert groups == {name: [*group, *(["image"] if name == "Prepare" else [])] for name, group in GROUPS.items()}
    assert {*VERBS, "image"} == {*ROOT.commands}
    (image,) = (entries for heading, entries in shown(("image",)).groups if heading != OPTIONS)
    assert [entry.term for entry in image] == list(IMAGE_VERBS)


def test_the_help_ends_with_the_exit_codes() -> None:
    codes = sorted(value for name, value in vars(errors).items() if name.startswith("EXIT_"))
    assert [int(entry.term) for entry in EXIT_CODES] == codes
    last = helped(()).partition("Exit codes:\n")[2].splitlines()
    assert [line.split(maxsplit=1) for line in last] == [[entry.term, entry.text] for entry in EXIT_CODES]


@every_verb
def test_a_verb_says_what_it_does_in_a_line_then_how_then_by_an_example(words: tuple[str, ...]) -> None:
    page, printed = shown(words), helped(words)
    assert re.fullmatch(r"[A-Z][^.]*\.", page.summary)
    assert printed.startswith(f"Usage: {page.name} {page.usage}\n\n  {page.summary}\n")
    assert page.examples
    for example in page.examples:
        assert re.match(r"[A-Za-z]", example.what_for) and not example.what_for.endswith(".")
        assert len(example.what_for) <= 74 and f"  # {example.what_for}\n" in printed
        for command in example.commands:
            assert f"\n  {command}\n" in printed


@every_verb
def test_an_example_is_a_command_line_that_this_verb_takes(words: tuple[str, ...]) -> None:
    lines = [line for example in shown(words).examples for command in example.commands for line in commands_in(command)]
    assert any(tuple(line[: len(words)]) == words for line in lines)
    for line in lines:
        parse(line)


def test_a_line_with_an_option_that_is_none_is_not_taken() -> None:
    """So the test of examples fails where an option goes."""
    for line in (["run", "demo", "--nonsense"], ["image", "bild"], ["nonsense"], ["synthetic"]):
        with pytest.raises(Exception, match=r"No such|Missing"):
            parse(line)


@every_verb
def test_an_option_has_one_plain_sentence_and_a_plain_metavar(words: tuple[str, ...]) -> None:
    for heading, entries in shown(words).groups:
        for entry in entries:
            assert re.fullmatch(r"[A-Z].*[.)\]]", entry.text), entry
            sentence = re.sub(r" \[default: \S+\]$", "", entry.text)
            assert sentence.endswith(".") and ". " not in sentence, entry
            assert len(sentence) <= 110, entry
            assert len(entry.term) <= TERM_MAX, entry
            if entry.term.startswith("-"):
                values = re.sub(r"^(-\w, )?--[a-z-]+ ?", "", entry.term)
                assert not values or values in METAVARS, entry
            elif heading == ARGUMENTS:
                assert entry.term.removesuffix("...") in METAVARS, entry


@every_verb
def test_many_options_are_in_groups(words: tuple[str, ...]) -> None:
    (ungrouped,) = (entries for heading, entries in shown(words).groups if heading == OPTIONS)
    assert shown(words).groups[-1][0] == OPTIONS
    assert {"-h, --help"} <= {entry.term for entry in ungrouped}
    assert len(ungrouped) <= 3


@every_verb
def test_the_usage_has_words_and_brackets_alone(words: tuple[str, ...]) -> None:
    rest = shown(words).usage.removeprefix("[OPTIONS]")
    if isinstance(verbs()[words], Verbs):
        assert rest == " COMMAND ..."
    else:
        assert re.fullmatch(r"(?: \[[A-Z]+(?:\.\.\.)?\]| [A-Z]+(?:\.\.\.)?)?", rest)


@every_verb
@pytest.mark.parametrize("columns", [80, 100])
def test_no_line_is_longer_than_the_terminal(words: tuple[str, ...], columns: int) -> None:
    assert [line for line in helped(words, columns).splitlines() if len(line) > columns] == []


@every_verb
def test_the_short_option_asks_for_the_same_help(words: tuple[str, ...]) -> None:
    assert printed_by(*words, "-h") == printed_by(*words, "--help")
    assert printed_by(*words, "-h").split() == helped(words).split()


@pytest.mark.parametrize("option", ["--install-completion", "--show-completion"])
def test_the_command_line_s_own_options_for_completion_are_left_to_the_verb(option: str) -> None:
    ended = CliRunner().invoke(app, [option])
    assert ended.exit_code == errors.EXIT_USAGE
    assert "No such option" in ended.output


def test_a_verb_that_is_none_is_an_error_that_names_the_nearest() -> None:
    ended = CliRunner().invoke(app, ["validat"])
    assert ended.exit_code == errors.EXIT_USAGE
    assert "Did you mean 'validate'?" in ended.output


def test_the_readme_lists_every_verb() -> None:
    readme = (DOCS / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```\n(latlab doctor .*?)^```$", readme, re.MULTILINE | re.DOTALL)
    lines = [shlex.split(re.split(" {2,}", line)[0]) for line in block.splitlines()]
    assert {line[1] for line in lines} == {*VERBS, "image"}
    for line in lines:
        parse(line[1:])


def test_the_variables_of_the_environment_are_those_of_the_installing_page() -> None:
    page = (DOCS / "docs/howto/install.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([A-Z_]+)` \|", page, re.MULTILINE) == [entry.term for entry in ENVIRONMENT]


def test_the_help_of_show_names_every_section() -> None:
    sections = re.search(r"The sections are (.*?);", " ".join(verbs()["show",].help.split()))
    assert sections
    assert re.split(r", | and ", sections[1]) == list(SECTIONS)
