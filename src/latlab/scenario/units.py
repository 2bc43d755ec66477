"""Durations, sizes, rates and shares: text with a unit to whole numbers, exactly, and back."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, PlainSerializer, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from latlab.model.units import RATES, SHARES, SIZES, TIMES
from latlab.scenario.findings import shown, wrong

INT64_MAX = 2**63 - 1
_NUMBER = r"([0-9]+)(?:\.([0-9]+))?"
_LONGEST = 40


@dataclass(frozen=True)
class Quantity:
    """A kind of quantity: its units as multiples of the smallest, and the units its values are printed in."""

    name: str
    units: Mapping[str, int]
    printed: tuple[str, ...]
    example: str

    @property
    def pattern(self) -> str:
        """The regular expression (ECMA and Python) of its text."""
        units = "|".join(re.escape(unit).replace("/", r"\/") for unit in self.units)
        return f"^{_NUMBER} ?({units})$"

    @property
    def smallest(self) -> str:
        return next(unit for unit, scale in self.units.items() if scale == 1)

    @property
    def expected(self) -> str:
        return f"a {self.name} such as {self.example}"

    def parse(self, value: object) -> int:
        """The value in the smallest unit; zero needs no unit.

        Errors (PydanticCustomError): no unit, an unknown one, a fraction of the smallest, more than int64.
        """
        if isinstance(value, int | float) and not isinstance(value, bool):
            if value == 0:
                return 0
            raise wrong(f"{shown(value)} has no unit", self.expected)
        if not isinstance(value, str):
            raise wrong(f"{shown(value)} is not a {self.name}", self.expected)
        match = re.fullmatch(self.pattern, value) if len(value) <= _LONGEST else None
        if match is None:
            raise wrong(f"{shown(value)} is not a {self.name}", f"{self.expected} (units: {', '.join(self.units)})")
        whole, fraction, unit = match[1], match[2] or "", match[3]
        scale: int = 10 ** len(fraction)
        result, rest = divmod(int(whole + fraction) * self.units[unit], scale)
        if rest:
            raise wrong(f"{shown(value)} is a fraction of 1{self.smallest}", f"a whole number of {self.smallest}")
        if result > INT64_MAX:
            raise wrong(f"{shown(value)} is too large", f"less than 2^63 {self.smallest}")
        return result

    def format(self, value: int) -> str:
        """The value in the largest printed unit in which it is a whole number: exact, and reads back."""
        fits = (unit for unit in self.printed if value and value % self.units[unit] == 0)
        unit = next(fits, self.printed[-1])
        return f"{value // self.units[unit]}{unit}"


DURATION = Quantity(
    name="duration",
    units=TIMES,
    printed=("s", "ms", "us", "ns"),
    example="1006us",
)
SIZE = Quantity(
    name="size",
    units=SIZES,
    printed=("GiB", "GB", "MiB", "MB", "KiB", "kB", "B"),
    example="64B",
)
RATE = Quantity(
    name="rate",
    units=RATES,
    printed=("Gbit/s", "Mbit/s", "kbit/s", "bit/s"),
    example="100Mbit/s",
)
SHARE = Quantity(name="share", units=SHARES, printed=("%", "ppm"), example="10%")


def parse_duration(value: object) -> int:
    """Nanoseconds: `1006us` is 1006000. Errors: see `Quantity.parse`."""
    return DURATION.parse(value)


def parse_size(value: object) -> int:
    """Bytes: `1KiB` is 1024. Errors: see `Quantity.parse`."""
    return SIZE.parse(value)


def parse_rate(value: object) -> int:
    """Bits a second: `1Gbit/s` is 10^9. Errors: see `Quantity.parse`."""
    return RATE.parse(value)


def parse_share(value: object) -> int:
    """Millionths: `10%` is 100000. Errors: see `Quantity.parse`."""
    return SHARE.parse(value)


def parse_rate_or_max(value: object) -> int | None:
    """Bits a second, at least 1; None for `max`, as fast as it goes."""
    if value == "max":
        return None
    try:
        rate = RATE.parse(value)
    except PydanticCustomError as error:
        context = error.context or {}
        raise wrong(context["what"], f"max or {context['expected']}") from None
    if rate < 1:
        raise wrong("nothing would be sent at rate 0", f"max or {RATE.expected}")
    return rate


def format_duration(ns: int) -> str:
    """Text of a duration in nanoseconds, exact: 1006000 is `1006us`."""
    return DURATION.format(ns)


def format_size(size: int) -> str:
    """Text of a size in bytes, exact: 1024 is `1KiB`."""
    return SIZE.format(size)


def format_rate(bps: int) -> str:
    """Text of a rate in bits a second, exact: 10^8 is `100Mbit/s`."""
    return RATE.format(bps)


def format_share(ppm: int) -> str:
    """Text of a share in millionths, exact: 1000 is `0.1%`, and what is less is in `ppm`."""
    whole, rest = divmod(ppm, 10**4)
    return f"{whole}{f'.{rest:04}'.rstrip('0') if rest else ''}%" if ppm >= 10**3 or not ppm else f"{ppm}ppm"


def format_rate_or_max(bps: int | None) -> str:
    """Text of a rate in bits a second; `max` for None."""
    return "max" if bps is None else format_rate(bps)


def within(quantity: Quantity, low: int, high: int = INT64_MAX) -> AfterValidator:
    """A validator that lets values from low to high pass, both in the quantity's smallest unit."""

    def check(value: int) -> int:
        if value < low:
            raise wrong(f"{quantity.format(value)} is too small", f"{quantity.format(low)} or more")
        if value > high:
            raise wrong(f"{quantity.format(value)} is too large", f"{quantity.format(high)} or less")
        return value

    return AfterValidator(check)


def _text(quantity: Quantity) -> dict[str, object]:
    return {"type": "string", "pattern": quantity.pattern, "examples": [quantity.example]}


def _as_json(form: Callable[..., str]) -> PlainSerializer:
    return PlainSerializer(form, return_type=str, when_used="json")


Duration = Annotated[
    int,
    PlainValidator(parse_duration),
    WithJsonSchema({"anyOf": [_text(DURATION), {"const": 0}]}),
    _as_json(format_duration),
]
"""int nanoseconds, written with a unit."""

Size = Annotated[
    int,
    PlainValidator(parse_size),
    WithJsonSchema({"anyOf": [_text(SIZE), {"const": 0}]}),
    _as_json(format_size),
]
"""int bytes, written with a unit."""

Rate = Annotated[
    int,
    PlainValidator(parse_rate),
    WithJsonSchema(_text(RATE)),
    _as_json(format_rate),
]
"""int bits a second, written with a unit."""

Share = Annotated[
    int,
    PlainValidator(parse_share),
    WithJsonSchema({"anyOf": [_text(SHARE), {"const": 0}]}),
    _as_json(format_share),
]
"""int millionths, written with a unit."""

RateOrMax = Annotated[
    int | None,
    PlainValidator(parse_rate_or_max),
    WithJsonSchema({"anyOf": [_text(RATE), {"const": "max"}]}),
    _as_json(format_rate_or_max),
]
"""int bits a second, written with a unit; None is `max`, as fast as it goes."""


def numbers(values: Sequence[object]) -> tuple[Quantity, list[int]] | None:
    """What these are if all of them are sizes, or all durations: in bytes, or in ns; None of anything else."""
    for quantity in (SIZE, DURATION):
        try:
            return quantity, [quantity.parse(value) for value in values]
        except PydanticCustomError:
            continue
    return None
