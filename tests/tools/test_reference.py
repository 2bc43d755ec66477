"""Tables of the documentation that the code declares are as it declares them."""

from __future__ import annotations

from latlab.analysis.anomalies import CLASSES
from latlab.model.rules import RULES
from reference import DOCS, TABLES, main, pages


def test_the_pages_have_the_tables_of_the_code() -> None:
    assert [str(path) for path, text in pages() if path.read_text(encoding="utf-8") != text] == []


def test_every_table_stands_on_one_page() -> None:
    texts = [path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md")]
    assert {
        name: sum(f"<!-- tools/reference.py: {name} -->" in text for text in texts) for name in TABLES
    } == dict.fromkeys(TABLES, 1)


def test_a_row_for_each_rule_and_class() -> None:
    rows = {name: text.count("\n") - 2 for name, text in TABLES.items()}
    assert (rows["rules"], rows["classes"]) == (len(RULES), len(CLASSES))


def test_nothing_is_written_where_nothing_changed() -> None:
    before = {path: path.stat().st_mtime_ns for path, _ in pages()}
    assert main() == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before
