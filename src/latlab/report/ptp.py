"""What PTP did while cells were measured: a row for each port."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from latlab.analysis.words import duration, minus
from latlab.report import rows
from latlab.report.document import bad_if
from latlab.result.places import cell_title
from latlab.result.types import Cell, PtpCheck, PtpPort, Result, Spread, Unlocked

TITLE = "PTP: reports of ptp4l while streams ran, and independent readings of the clocks"
HEADINGS = (
    "cell",
    "repeat",
    "port",
    "state",
    "grandmaster",
    "offset, p50 (min to max)",
    "path delay",
    "frequency",
    "not locked",
    "by latlab's readings",
)


@dataclass(frozen=True)
class PtpRow:
    """One port of one cell, in words. locked: it was all the time. apart: whether readings differ."""

    cell: str
    repeat: int
    port: str
    state: str
    grandmaster: str = ""
    offset: str = ""
    path_delay: str = ""
    frequency: str = ""
    unlocked: str = ""
    checked: str = ""
    locked: bool = True
    apart: bool = False

    @property
    def texts(self) -> Sequence[str]:
        """In the order of HEADINGS."""
        said = self.state, self.grandmaster, self.offset, self.path_delay, self.frequency
        found = bad_if(not self.locked, self.unlocked), bad_if(self.apart, self.checked)
        return (self.cell, str(self.repeat), self.port, *said, *found)


def ptp_rows(result: Result) -> Iterator[PtpRow]:
    """A row for each port of PTP's, in the order of the summary."""
    for cell in rows.ordered_cells(result):
        for port in cell.ptp:
            yield _row(cell, port)


def _row(cell: Cell, port: PtpPort) -> PtpRow:
    role = port.role
    if role == "observed" and port.acts_as:
        role = f"observed {port.acts_as}"
    named = cell_title(cell), cell.repeat, f"{port.port}, {role}, {port.timestamps} timestamps"
    if port.absent:
        return PtpRow(*named, f"not started: {port.absent}")
    turned = not port.free_running or port.timestamps == "hardware"
    return PtpRow(
        *named,
        ", ".join(port.states),
        grandmaster=", ".join(port.grandmasters) or "not announced",
        offset=_spread(port.offset_ns),
        path_delay=duration(port.path_delay_ns.p50) if port.path_delay_ns else "",
        frequency=_frequency(port.frequency_ppb) if turned else "not adjusted",
        unlocked="; ".join(map(_spell, port.unlocked)) or "never",
        checked=_checked(port.checked),
        locked=not port.unlocked,
        apart=bool(port.checked and port.checked.apart),
    )


def _spread(offset: Spread | None) -> str:
    if not offset:
        return ""
    return f"{duration(offset.p50)} ({duration(offset.min)} to {duration(offset.max)})"


def _frequency(found: Spread | None) -> str:
    return " to ".join(minus(f"{end:+.0f}") for end in (found.min, found.max)) + " ppb" if found else ""


def _spell(spell: Unlocked) -> str:
    """`no Sync was received, from 1.5 s on`, or for how long."""
    if spell.to_ns is None:
        return f"{spell.why}, from {duration(spell.from_ns)} on"
    return f"{spell.why}, at {duration(spell.from_ns)} for {duration(spell.to_ns - spell.from_ns)}"


def _checked(checked: PtpCheck | None) -> str:
    if not checked:
        return "not read"
    text = f"{duration(checked.ours_p50_ns)} ± {duration(checked.half_p50_ns)}"
    if not checked.half_p50_ns:
        text = f"{duration(checked.ours_p50_ns)}: one clock"
    if checked.coarse:
        text += ", too coarse to compare"
    if checked.apart:
        text += f"; {checked.apart} of {checked.n} apart, up to {duration(checked.outside_max_ns)}"
    return text
