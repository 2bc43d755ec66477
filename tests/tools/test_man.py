"""Manual pages of the command line: one for each verb, and right as man(7) has it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from latlab.cli.app import IMAGE_VERBS, VERBS
from man import escaped, file_name, pages

ROOT = Path(__file__).parents[2]
NAMES = [
    "latlab",
    "latlab-image",
    *(f"latlab-{name}" for name in VERBS),
    *(f"latlab-image-{one}" for one in IMAGE_VERBS),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `make man` has written the pages."""
    made = tmp_path_factory.mktemp("man") / "pages"
    command: list[str | Path] = [sys.executable, ROOT / "tools/man.py", made]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    return made


def rendered(path: Path) -> str:
    """The page as a terminal has it, on lines of any length, without bold."""
    command: list[str | Path] = ["groff", "-man", "-Tutf8", "-Kutf8", "-P-cbou", "-rLL=1000n", path]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout


def test_there_is_a_page_for_the_command_line_and_for_each_verb(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == sorted(f"{name}.1" for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_has_the_sections_that_people_look_for(name: str, folder: Path) -> None:
    text = (folder / f"{name}.1").read_text(encoding="utf-8")
    found = re.findall(r"^\.SH (.*)$", text, re.MULTILINE)
    order = ["NAME", "SYNOPSIS", "DESCRIPTION", "ARGUMENTS", "COMMANDS", "OPTIONS", "EXAMPLES", "ENVIRONMENT"]
    order += ["EXIT STATUS", "SEE ALSO"]
    assert found == [one for one in order if one in found]
    assert {*order} - {*found} <= {"ARGUMENTS", "COMMANDS"}
    assert re.match(rf'\.TH {name.upper()} 1 \d{{4}}-\d\d-\d\d "latlab ', text)
    assert f"\n{name} \\- " in text


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_right_as_mandoc_or_groff_sees_it(name: str, folder: Path) -> None:
    path = folder / f"{name}.1"
    if shutil.which("mandoc"):
        command: list[str | Path] = ["mandoc", "-T", "lint", "-W", "warning", path]
    elif shutil.which("groff"):
        command = ["groff", "-man", "-ww", "-z", "-Kutf8", "-Tutf8", path]
    else:
        pytest.skip("neither mandoc nor groff is installed")
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_page_says_all_that_the_help_says(folder: Path) -> None:
    if not shutil.which("groff"):
        pytest.skip("groff is not installed")
    for page in pages():
        printed = " ".join(rendered(folder / f"{file_name(page)}.1").split())
        texts = [page.summary, *page.paragraphs, f"{page.name} {page.usage}"]
        texts += [f"{entry.term} {entry.text}" for _, entries in page.groups for entry in entries]
        texts += [command for example in page.examples for command in example.commands]
        missing = [text for text in texts if " ".join(text.replace("`", "").split()) not in printed]
        assert missing == [], page.name


def test_text_stays_text_in_roff() -> None:
    assert escaped(".TH is no request here") == r"\&.TH is no request here"
    assert escaped("a\\b --run it's ~/x") == r"a\eb \-\-run it\(aqs \(ti/x"
