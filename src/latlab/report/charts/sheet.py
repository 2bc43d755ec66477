"""A chart as it is declared: parts placed in inches. The page has it as SVG, files and notebooks by matplotlib."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import groupby
from math import ceil, floor, log10
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from markupsafe import Markup, escape

from latlab.model.errors import UsageError, writing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ft2font import FT2Font

# The colours, dashes and markers of lines, distinguished by the colour-blind too, and in print.
#
# Sources: M. Okabe, K. Ito, "Color Universal Design", 2008, without its yellow, which white paper swallows; the last
# two are wine and indigo of P. Tol, "Colour Schemes", SRON/EPS/TN/09-002, 2021, "muted".


COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#1A1A1A", "#882255", "#332288")
LOST_COLOUR = "#D55E00"
WAY_COLOURS = (*(COLOURS[one] for one in (1, 4, 2, 3, 5, 0, 6)), LOST_COLOUR, "#767676")
"""Of the intervals of a packet's path, in its order: wake-up, prepare, socket, qdisc, sending NIC, path, receiving NIC,
delivery; and of a guest's way to its interrupt's handler. Neighbours stay apart for the colour-blind, and a line of
paper is between them.
"""
WAY_INKS = (*("#14181c",) * 4, "white", "white", "#ffffff", "#14181c", "white")
"""What is written on each of them; "white" is the page's paper, which is dark in the dark, as these are light there."""
DASHES: tuple[tuple[int, ...], ...] = ((), (6, 2), (2, 2), (8, 2, 2, 2), (12, 2, 2, 2, 2, 2))
MARKERS = ("", "o", "s", "^", "D", "v")


ANY_COLOUR = -1
"""Instead of an index into COLOURS, grey: no bridge's where bridges have colours, or lines of any colour."""


@dataclass(frozen=True)
class Look:
    """One cell's colour (index into COLOURS, or ANY_COLOUR), dash (lengths in points; empty is solid) and marker."""

    colour: int
    dash: tuple[int, ...]
    marker: str


# A chart as it is declared: parts placed in inches. The page has it as SVG, files and notebooks by matplotlib.


WIDTH_IN: Final = 10.0
"""Of files and of the page, where the window is wide; where it is not the page has NARROW_IN."""
NARROW_IN: Final = 3.8
BESIDE_IN: Final = 7.0
"""From this width on panels stand side by side."""
SIDE_IN: Final = 0.16
LINE_IN: Final = 0.17
TEXT_PT: Final = 8.5
TITLE_PT: Final = 9.0
SMALL_PT: Final = 7.6
INK: Final = "#1a1a1a"
QUIET: Final = "#5a5a5a"
EDGE: Final = "#8a8a8a"
GRID: Final = "#e2e2e2"
PAPER: Final = "white"
FORMATS: Final = ("png", "svg", "pdf")
_PX: Final = 96
_PAGE: Final = {
    INK: "ink", QUIET: "quiet", EDGE: "line", GRID: "grid", PAPER: "paper", LOST_COLOUR: "lost", "#767676": "quiet",
    **{colour: f"cell-{number}" for number, colour in enumerate(COLOURS)},
}  # fmt: skip
"""Colours that the page has others for in the dark, by the names of its style sheet."""
_CAPS: Final = {"o": "round", "s": "square"}
_SHAPES: Final = {
    ">": ((-0.5, -0.5), (0.5, 0), (-0.5, 0.5)),
    "<": ((0.5, -0.5), (-0.5, 0), (0.5, 0.5)),
    "v": ((-0.5, -0.5), (0.5, -0.5), (0, 0.5)),
    "^": ((-0.5, 0.5), (0, -0.5), (0.5, 0.5)),
}
_BASELINES: Final = {"top": 0.82, "center": 0.35, "bottom": -0.22}
"""How far below a text's place its baseline is, in type sizes."""
_ANCHORS: Final = {"left": "", "center": "middle", "right": "end"}

Style = dict[str, Any]
"""What matplotlib takes by name."""
STYLE: Final[Style] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.labelsize": 9.0,
    "axes.edgecolor": EDGE,
    "axes.linewidth": 0.7,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "figure.dpi": 100,
    "savefig.dpi": 150,
    "svg.hashsalt": "latlab",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
}
# Without these, each file would carry the moment it was written and no two would be equal.
_METADATA: Final[dict[str, Style]] = {
    "png": {"Software": None},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
}
_OWN: Final[dict[str, Style]] = {"png": {"pil_kwargs": {"compress_level": 3}}}
"""Pillow's level takes a third of the default's time."""

Point = tuple[float, float]


@dataclass(frozen=True)
class Text:
    """A text as it is: it is empty is a formula. ha: left, center, right; va: top, center, bottom."""

    x: float
    y: float
    text: str
    size: float
    colour: str
    weight: str
    ha: str
    va: str

    kind = property(lambda self: ("text", self.size, self.colour, self.weight, self.ha))


@dataclass(frozen=True)
class DrawnLines:
    """Lines through points; with a `fill` they are closed. width, dash: in points. name: of the part in a file."""

    paths: tuple[tuple[Point, ...], ...]
    colour: str
    width: float
    dash: tuple[float, ...]
    fill: str
    alpha: float
    name: str

    kind = property(lambda self: ("lines", replace(self, paths=())))


@dataclass(frozen=True)
class DrawnMarkers:
    """A marker of `size` points at each place: o, s, or a triangle. inside: its filling."""

    points: tuple[Point, ...]
    marker: str
    size: float
    colour: str
    inside: str
    name: str

    kind = property(lambda self: ("marks", replace(self, points=())))


Part = Text | DrawnLines | DrawnMarkers
Sample = tuple[Callable[[float, float], None], float, str]
"""Of a key: what draws it from x on at the height y, how wide it is, its text."""


class Sheet:
    """One piece of a chart, `width_in` wide; places in inches from its upper left corner, downwards.

    height_in: set by who draws it. told: what it shows in words, which the page says over it unless parts have texts of
    their own; without them it is decoration, as a key is.
    """

    def __init__(self, width_in: float, height_in: float = 0.0, told: str = "") -> None:
        self.width_in, self.height_in, self.told = width_in, height_in, told
        self.parts: list[tuple[Part, str]] = []
        self._about = ""

    def text(
        self, x: float, y: float, text: str, *, size: float = TEXT_PT, colour: str = INK, weight: str = "normal",
        ha: str = "left", va: str = "center",
    ) -> None:  # fmt: skip
        """Write the text there."""
        self._add(Text(x, y, text, size, colour, weight, ha, va))

    def lines(
        self, points: Iterable[Sequence[Point]], colour: str, width: float = 0.7, *,
        dash: Sequence[float] = (), name: str = "",
    ) -> None:  # fmt: skip
        """Draw lines through these points."""
        if paths := tuple(tuple(one) for one in points if one):
            self._add(DrawnLines(paths, colour, width, tuple(dash), "", 1.0, name))

    def area(
        self, points: Sequence[Point], fill: str, *, alpha: float = 1.0, edge: str = "", line: float = 0.5,
        dash: Sequence[float] = (), name: str = "",
    ) -> None:  # fmt: skip
        """Fill what lies within these points. edge, line: colour and width of the line around it."""
        self._add(DrawnLines((tuple(points),), edge, line if edge else 0.0, tuple(dash), fill, alpha, name))

    def box(self, left: float, top: float, width: float, height: float, fill: str, **style: Any) -> None:
        """Fill a rectangle. style: as `area` has it."""
        right, bottom = left + width, top + height
        self.area(((left, top), (right, top), (right, bottom), (left, bottom)), fill, **style)

    def marks(
        self, points: Iterable[Point], marker: str, size: float, colour: str, *, inside: str = "", name: str = ""
    ) -> None:
        """Draw a marker of `size` points at each of these."""
        if places := tuple(points):
            self._add(DrawnMarkers(places, marker, size, colour, inside or colour, name))

    @contextmanager
    def about(self, words: str) -> Iterator[None]:
        """Say these words on the page over what is drawn meanwhile."""
        self._about = words
        yield
        self._about = ""

    def key(self, left: float, top: float, entries: Sequence[Sample]) -> None:
        """Draw a key from there on, as wide as the sheet, and end the sheet below it."""
        x, y = left, top + LINE_IN / 2
        for sample, width, text in entries:
            needs = width + 0.08 + text_in(text, TEXT_PT)
            if x > left and x + needs > self.width_in - SIDE_IN:
                x, y = left, y + LINE_IN + 0.03
            sample(x, y)
            first, *others = wrapped(text, self.width_in - SIDE_IN - x - width - 0.08)
            self.text(x + width + 0.08, y, first, colour=QUIET)
            for line in others:
                y += LINE_IN
                self.text(x + width + 0.08, y, line, colour=QUIET)
            x += needs + 0.2
        self.height_in = y + LINE_IN / 2 + 0.06

    def paragraph(self, left: float, top: float, text: str, **style: Any) -> float:
        """Write the text in as many lines as it needs; where they end. style: as `text` has it."""
        shape = style.get("size", TEXT_PT), style.get("weight", "normal")
        for line in wrapped(text, self.width_in - left - SIDE_IN, *shape):
            self.text(left, top, line, va="top", **style)
            top += LINE_IN
        return top

    def put(self, other: Sheet, top: float) -> None:
        """Draw another sheet on this one, from `top` on."""
        self.parts += [(_lower(part, top), about) for part, about in other.parts]

    def svg(self) -> Markup:
        """The sheet as an SVG element without scripts and styles, in the page's colours."""
        own = any(about for _, about in self.parts)
        label = Markup(' aria-label="{}"').format(self.told) if own else ""
        label = Markup(' role="img"{}').format(label) if self.told else Markup(' aria-hidden="true"')
        title = Markup("<title>{}</title>").format(self.told) if self.told and not own else ""
        size = f"{_px(self.width_in)} {_px(self.height_in)}"
        found = (
            "".join((f"<g><title>{escape(about)}</title>", *_elements(parts), "</g>"))
            if about
            else "".join(_elements(parts))
            for about, parts in ((words, [part for part, _ in some]) for words, some in groupby(self.parts, _second))
        )
        return Markup(f'<svg viewBox="0 0 {size}"{label}>{title}{"".join(found)}</svg>')

    def figure(self) -> Figure:
        """The sheet as a figure of matplotlib's."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(self.width_in, self.height_in))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(0, self.width_in)
        axes.set_ylim(self.height_in, 0)
        for order, (_, parts) in enumerate(groupby((part for part, _ in self.parts), _kind)):
            _put_on(axes, list(parts), order)
        return figure

    def _add(self, part: Part) -> None:
        self.parts.append((part, self._about))


@dataclass(frozen=True)
class Plotted:
    """A chart that matplotlib draws and the page has otherwise. stem: its files' name. plot: caption → figure."""

    stem: str
    plot: Callable[[str], Figure] = field(repr=False)

    def figure(self, caption: str = "") -> Figure:
        """The chart as a figure of matplotlib's. caption: below its title."""
        import matplotlib as mpl

        with mpl.rc_context(cast(Any, STYLE)):
            return self.plot(caption)

    def save(self, path: Path | str, caption: str = "") -> None:
        """Write the chart into a file. UsageError: its ending is none of FORMATS."""
        save(self.figure(caption), Path(path))

    def _repr_png_(self) -> bytes:
        """What a notebook shows."""
        return figure_bytes(self.figure(), "png")


@dataclass(frozen=True)
class Drawing:
    """One chart. stem: its files' name. said: lines below its title; notes: below all. draw: width in inches → its
    pieces, from top to bottom; between them it may be broken on paper.
    """

    stem: str
    title: str
    draw: Callable[[float], Iterable[Sheet]] = field(repr=False)
    said: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def pieces(self, *, wide: bool = True) -> list[Sheet]:
        """Its pieces on the page."""
        return list(self.draw(WIDTH_IN if wide else NARROW_IN))

    def sheet(self, caption: str = "") -> Sheet:
        """The whole on one sheet, as in a file. caption: below its title."""
        whole = Sheet(WIDTH_IN)
        whole.text(SIDE_IN, 0.12, self.title, size=13, weight="bold", va="top")
        top = 0.41
        for line in filter(None, (caption, *self.said)):
            top = whole.paragraph(SIDE_IN, top, line, size=8.8, colour=QUIET) + 0.02
        top += 0.1
        for piece in self.pieces():
            whole.put(piece, top)
            top += piece.height_in
        for line in self.notes:
            top = whole.paragraph(SIDE_IN, top, line, size=8.2, colour=QUIET)
        whole.height_in = top + 0.1
        return whole

    def figure(self, caption: str = "") -> Figure:
        """The whole as a figure of matplotlib's."""
        import matplotlib as mpl

        with mpl.rc_context(cast(Any, STYLE)):
            return self.sheet(caption).figure()

    def save(self, path: Path | str, caption: str = "") -> None:
        """Write the whole into a file. UsageError: its ending is none of FORMATS."""
        save(self.figure(caption), Path(path))

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        lines = "".join(f"<div>{escape(line)}</div>" for line in (*self.said, *self.notes))
        drawn = "".join(piece.svg() for piece in self.pieces())
        return f'<div style="max-width: 960px; background: white"><b>{escape(self.title)}</b>{lines}{drawn}</div>'


def write_chart(
    chart: Drawing | Plotted, folder: Path, *, caption: str = "", formats: Sequence[str] = ("png",)
) -> list[Path]:
    """The files written: STEM.KIND for each of `formats`, of FORMATS. caption: below the title."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{file_stem(chart.stem)}.{kind}" for kind in formats]
    figure = chart.figure(caption)
    for path, kind in zip(paths, formats, strict=True):
        write_figure(figure, path, kind)
    return paths


def save(figure: Figure, path: Path) -> None:
    """Write the figure. UsageError: the file's ending is none of FORMATS."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise UsageError(
            f"{path.name} does not say what to draw", where=str(path), remedy="end it in .png, .svg or .pdf"
        )
    write_figure(figure, path, kind)


def write_figure(figure: Figure, path: Path, kind: str) -> None:
    """Write the figure. kind: of FORMATS."""
    # What cannot be written then fails here, and not in the middle of a library.
    drawn = figure_bytes(figure, kind)
    with writing(path):
        path.write_bytes(drawn)


def figure_bytes(figure: Figure, kind: str) -> bytes:
    """A file of the figure. kind: of FORMATS."""
    import matplotlib as mpl

    file = io.BytesIO()
    with mpl.rc_context(cast(Any, STYLE)):
        figure.savefig(file, format=kind, metadata=_METADATA[kind], **_OWN.get(kind, {}))
    return file.getvalue()


def file_stem(text: str) -> str:
    """The text as a picture's name: what a file's name cannot have is "_"."""
    return re.sub(r"[^\w.-]", "_", text)


@cache
def text_in(text: str, size_pt: float, weight: str = "normal") -> float:
    """How wide the text is in inches."""
    if not text.strip():
        return 0.0
    from matplotlib.ft2font import LoadFlags

    font = _font(weight)
    font.set_text(text, 0.0, flags=LoadFlags.NO_HINTING)
    return float(font.get_width_height()[0]) / 64 * size_pt / 100 / 72


def wrapped(text: str, width_in: float, size_pt: float = TEXT_PT, weight: str = "normal") -> list[str]:
    """The text in lines of this width, broken between words. Words are measured one by one: most are known by then."""
    space_in = text_in("a a", size_pt, weight) - 2 * text_in("a", size_pt, weight)
    lines: list[str] = []
    filled_in = 0.0
    for word in text.split():
        word_in = text_in(word, size_pt, weight)
        if lines and filled_in + space_in + word_in <= width_in:
            lines[-1] += f" {word}"
            filled_in += space_in + word_in
        else:
            lines.append(word)
            filled_in = word_in
    return lines


def round_values(low: float, high: float, most: int) -> list[float]:
    """Multiples of 1, 2, 2.5 or 5 × 10ⁿ from low to high, at most so many."""
    power = 10.0 ** (floor(log10((high - low) / most)) - 1)
    for factor in (10, 20, 25, 50, 100, 200):
        step = factor * power
        first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
        if last - first < most:
            break
    return [number * step for number in range(first, last + 1)]


@cache
def _font(weight: str) -> FT2Font:
    from matplotlib import get_data_path
    from matplotlib.ft2font import FT2Font

    name = "DejaVuSans-Bold" if weight == "bold" else "DejaVuSans"
    font = FT2Font(f"{get_data_path()}/fonts/ttf/{name}.ttf")
    font.set_size(100, 72)
    return font


def _lower(part: Part, by: float) -> Part:
    match part:
        case Text():
            return replace(part, y=part.y + by)
        case DrawnLines():
            return replace(part, paths=tuple(tuple((x, y + by) for x, y in path) for path in part.paths))
        case _:
            return replace(part, points=tuple((x, y + by) for x, y in part.points))


def _kind(part: Part) -> Any:
    """What consecutive parts have alike that are drawn together."""
    return part.kind


def _second(pair: tuple[Part, str]) -> str:
    return pair[1]


def _elements(parts: Sequence[Part]) -> Iterator[str]:
    for _, some in groupby(parts, _kind):
        alike = list(some)
        match alike[0]:
            case Text():
                yield from _texts(cast("list[Text]", alike))
            case DrawnLines():
                yield _lines(cast("list[DrawnLines]", alike))
            case _:
                yield from _marks(cast("list[DrawnMarkers]", alike))


def _texts(alike: Sequence[Text]) -> Iterator[str]:
    one = alike[0]
    size = one.size * _PX / 72
    anchor = f' text-anchor="{_ANCHORS[one.ha]}"' if _ANCHORS[one.ha] else ""
    weight = ' font-weight="600"' if one.weight == "bold" else ""
    yield f'<g font-size="{size:.4g}" fill="{_colour(one.colour)}"{anchor}{weight}>'
    for each in alike:
        y = each.y * _PX + _BASELINES[each.va] * size
        yield f'<text x="{_px(each.x)}" y="{y:.1f}">{escape(each.text)}</text>'
    yield "</g>"


def _lines(alike: Sequence[DrawnLines]) -> str:
    one = alike[0]
    end = "z" if one.fill else ""
    data = "".join(f"{_rectangle(path) or _path(path)}{end}" for each in alike for path in each.paths)
    stroke = f' stroke="{_colour(one.colour)}" stroke-width="{one.width * _PX / 72:.3g}"' if one.colour else ""
    dash = f' stroke-dasharray="{" ".join(f"{part * _PX / 72:.3g}" for part in one.dash)}"' if one.dash else ""
    alpha = f' fill-opacity="{one.alpha:.2g}"' if one.alpha < 1 else ""
    return f'<path fill="{_colour(one.fill)}"{alpha}{stroke}{dash} d="{data}"/>'


def _marks(alike: Sequence[DrawnMarkers]) -> Iterator[str]:
    one = alike[0]
    points = [point for each in alike for point in each.points]
    size, edge = one.size * _PX / 72, 1.4
    if cap := _CAPS.get(one.marker):
        # A line without length is its cap alone.
        data = "".join(f"M{_px(x)} {_px(y)}h0" for x, y in points)
        hollow = one.inside != one.colour
        for colour, width in ((one.colour, size), (one.inside, size - 2 * edge))[: 1 + hollow]:
            yield (f'<path stroke="{_colour(colour)}" stroke-width="{width:.3g}" stroke-linecap="{cap}" d="{data}"/>')
        return
    in_ = one.size / 72
    shapes = ([(x + in_ * right, y + in_ * down) for right, down in _SHAPES[one.marker]] for x, y in points)
    edge_too = f' stroke="{_colour(one.colour)}" stroke-width="{edge:.3g}"' if one.inside != one.colour else ""
    yield f'<path fill="{_colour(one.inside)}"{edge_too} d="{"".join(f"{_path(shape)}z" for shape in shapes)}"/>'


def _path(points: Sequence[Point]) -> str:
    return "M" + "L".join(f"{_px(x)} {_px(y)}" for x, y in points)


def _rectangle(points: Sequence[Point]) -> str:
    """The path of a rectangle, which is shorter; empty if it is none."""
    if len(points) != 4 or points[0][1] != points[1][1] or points[1][0] != points[2][0] or points[3][0] != points[0][0]:
        return ""
    (left, top), (right, bottom) = points[0], points[2]
    return f"M{_px(left)} {_px(top)}h{_px(right - left)}v{_px(bottom - top)}h{_px(left - right)}"


def _px(inches: float) -> str:
    return f"{inches * _PX:.1f}".removesuffix(".0")


def _colour(colour: str) -> str:
    name = _PAGE.get(colour)
    return f"var(--{name},{colour})" if name else colour or "none"


def _put_on(axes: Axes, alike: list[Part], order: int) -> None:
    import numpy as np
    from matplotlib.collections import LineCollection, PolyCollection

    match alike[0]:
        case Text():
            for each in cast("list[Text]", alike):
                style: Style = {"ha": each.ha, "va": "center_baseline" if each.va == "center" else each.va}
                style |= {"fontsize": each.size, "fontweight": each.weight, "parse_math": False}
                axes.text(each.x, each.y, each.text, color=each.colour, zorder=order, **style)
        case DrawnLines() as one:
            paths: Any = [path for each in cast("list[DrawnLines]", alike) for path in each.paths]
            dashes: Any = (0, [part / (one.width or 1) for part in one.dash]) if one.dash else "solid"
            shared: Style = {"linewidths": one.width, "linestyles": dashes, "zorder": order, "gid": one.name or None}
            collection = (
                PolyCollection(paths, facecolors=one.fill, edgecolors=one.colour or "none", alpha=one.alpha, **shared)
                if one.fill
                else LineCollection(paths, colors=one.colour, **shared)
            )
            axes.add_collection(collection, autolim=False)
        case DrawnMarkers() as one:
            x, y = np.array([point for each in cast("list[DrawnMarkers]", alike) for point in each.points]).T
            edge = 1.0 if one.inside != one.colour else 0.0
            style = {"markersize": one.size - edge, "markerfacecolor": one.inside, "markeredgewidth": edge}
            axes.plot(
                x, y, ls="none", marker=one.marker, color=one.colour, zorder=order, gid=one.name or None,
                **style,
            )  # fmt: skip
