"""What is drawn in a chart: its texts, lines and points, by the names that files have of them too."""

from __future__ import annotations

from collections.abc import Iterator

from latlab.report.charts.sheet import Drawing, DrawnLines, DrawnMarkers, Part, Point, Sheet, Text, text_in


def parts(drawing: Drawing | Sheet) -> list[Part]:
    """All parts of the chart as a file has it, below a caption, or of one piece."""
    return [part for part, _ in (drawing.sheet("caption") if isinstance(drawing, Drawing) else drawing).parts]


def texts(drawing: Drawing | Sheet) -> list[str]:
    """All that is written."""
    return [part.text for part in parts(drawing) if isinstance(part, Text)]


def said(drawing: Drawing | Sheet) -> str:
    """All that is written, lines of one paragraph joined."""
    return " ".join(texts(drawing))


def lines(drawing: Drawing | Sheet, name: str) -> list[tuple[Point, ...]]:
    """The lines and areas of that name."""
    return [
        path for part in parts(drawing) if isinstance(part, DrawnLines) and part.name == name for path in part.paths
    ]


def points(drawing: Drawing | Sheet, name: str) -> list[Point]:
    """The points of that name."""
    return [
        point
        for part in parts(drawing)
        if isinstance(part, DrawnMarkers) and part.name == name
        for point in part.points
    ]


def overlapping(sheet: Sheet) -> list[str]:
    """Texts that lie over another, or outside of the sheet."""
    boxes = list(_boxes(sheet))
    outside = [text for text, (left, top, right, bottom) in boxes if left < 0 or top < 0 or right > sheet.width_in]
    return outside + [
        f"{text} / {other}"
        for number, (text, (left, top, right, bottom)) in enumerate(boxes)
        for other, (left_, top_, right_, bottom_) in boxes[:number]
        if left < right_ and left_ < right and top < bottom_ and top_ < bottom
    ]


def _boxes(sheet: Sheet) -> Iterator[tuple[str, tuple[float, float, float, float]]]:
    for part in parts(sheet):
        if isinstance(part, Text) and part.text.strip():
            width, height = text_in(part.text, part.size, part.weight), 0.72 * part.size / 72
            left = part.x - {"left": 0.0, "center": 0.5, "right": 1.0}[part.ha] * width
            top = part.y - {"top": 0.0, "center": 0.5, "bottom": 1.0}[part.va] * height
            yield part.text, (left, top, left + width, top + height)
