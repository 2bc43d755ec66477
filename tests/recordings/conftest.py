"""A cell's folder with recordings in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from latlab.recordings.run_folder import CellFolder
from support.recordings import Row, cell_document, write_cell


@pytest.fixture
def make_cell(tmp_path: Path) -> Callable[..., CellFolder]:
    """make_cell(streams, {other keys of cell.json}, sent=…, stamps=…, …) → the cell's folder."""

    def make(
        streams: list[dict[str, Any]], changes: Mapping[str, Any] | None = None, **tables: list[Row]
    ) -> CellFolder:
        path = tmp_path / "cells" / "loads=none" / "r1"
        return write_cell(path, cell_document(streams, **(changes or {})), **tables)

    return make
