"""What every part of a scenario is made of: the strict model, names, `host.interface` ends and lists."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    Strict,
    WithJsonSchema,
)

from latlab.scenario.findings import shown, wrong

INTERFACE_NAME_MAX = 15
"""IFNAMSIZ − 1 bytes (include/uapi/linux/if.h)."""

SCENARIO_NAME = "^[a-z0-9][a-z0-9-]{0,31}$"
ITEM_NAME = "^[a-z][a-z0-9-]{0,30}$"
END = r"^[a-z][a-z0-9-]{0,30}\.[^\s/:%]{1,15}$"

IN_WORDS = {
    SCENARIO_NAME: ("name", "at most 32 of a–z, 0–9 and -, not beginning with -"),
    ITEM_NAME: ("name", "at most 31 of a–z, 0–9 and -, beginning with a letter"),
}
"""The patterns as error messages put them: what the text is to be, and of what form."""

T = TypeVar("T")
Listed = Annotated[tuple[T, ...], Strict(False)]
"""A YAML list, kept as a tuple; its items stay strict."""

ScenarioName = Annotated[str, Field(pattern=SCENARIO_NAME)]
ItemName = Annotated[str, Field(pattern=ITEM_NAME)]
Reference = Annotated[str, WithJsonSchema({"type": "string", "pattern": ITEM_NAME})]
"""The name of something defined elsewhere. Whether it is a name at all is judged once, where it is defined."""


class UnknownError(AttributeError):
    """A value was asked for that the file has wrong, which is reported where it stands."""


class Part(BaseModel):
    """A part of a scenario: unknown keys are errors, values are not converted, nothing changes later."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Nothing: only a field that a sketch has left out is not found, and what is made of such fields."""
            if name in type(self).model_fields or isinstance(getattr(type(self), name, None), property):
                raise UnknownError(f"{type(self).__name__}.{name} is not known")
            return super().__getattr__(name)


class End(NamedTuple):
    """One end of a link: an interface of a host, written `host.interface`."""

    host: str
    interface: str

    def __str__(self) -> str:
        return f"{self.host}.{self.interface}"


def parse_end(value: object) -> End:
    """The end that `host.interface` names. The first dot parts them: an interface name may hold dots."""
    if not isinstance(value, str) or "." not in value:
        raise wrong(f"{shown(value)} is not host.interface", "a host and its interface, such as sensor.eth0")
    host, interface = value.split(".", 1)
    return End(host, checked_interface(interface))


def checked_interface(name: str) -> str:
    """The name, if the kernel would take it.

    Source: dev_valid_name in net/core/dev.c; `all` and `default` are refused by sysctl_dev_name_is_allowed in
    include/net/addrconf.h and net/ipv4/devinet.c; `%` is a pattern to dev_alloc_name.
    """
    length = len(name.encode(errors="surrogatepass"))
    if length > INTERFACE_NAME_MAX:
        raise wrong(
            f"interface name {shown(name)} has {length} characters, the kernel takes {INTERFACE_NAME_MAX}",
            f"1 to {INTERFACE_NAME_MAX} characters",
        )
    if not name or not name.isprintable() or any(c.isspace() or c in "/:%" for c in name):
        raise wrong(f"the kernel refuses the interface name {shown(name)}", "no white space, '/', ':' or '%' in it")
    if name in (".", "..", "all", "default"):
        raise wrong(f"the kernel refuses the interface name {shown(name)}", "another name")
    if name == "lo":
        raise wrong("lo is every host's loopback", "an interface with a cable")
    return name


Interface = Annotated[str, AfterValidator(checked_interface)]
"""An interface's name."""


def _number(value: object) -> object:
    """A key in YAML is text: the number it is written as."""
    if isinstance(value, str):
        if not re.fullmatch("0|-?[1-9][0-9]{0,99}", value):
            raise wrong(f"{shown(value)} is not a number", "an integer such as 0")
        return int(value)
    return value


KeyNumber = Annotated[int, BeforeValidator(_number)]
"""A whole number as the key of a mapping. What is made of it has the bounds, and the schema's pattern."""

EndText = Annotated[
    End,
    PlainValidator(parse_end),
    WithJsonSchema({"type": "string", "pattern": END, "examples": ["sensor.eth0"]}),
    PlainSerializer(str, return_type=str, when_used="json"),
]
"""An End, written `host.interface`."""


def _distinct(values: tuple[int, ...]) -> tuple[int, ...]:
    if not values:
        raise wrong("an empty list of CPUs", "CPU numbers such as [2, 3], or null to leave it unchanged")
    if len(set(values)) != len(values):
        raise wrong(f"a CPU twice in {shown(list(values))}", "each CPU once")
    return values


Cpus = Annotated[Listed[Annotated[int, Field(ge=0, le=8191)]], AfterValidator(_distinct)]
"""CPU numbers, each once. 8191: the most the kernel can be built for (NR_CPUS)."""

Priority = Annotated[int, Field(ge=0, le=15)]
"""A socket priority; what a qdisc's priority map is indexed by (TC_PRIO_MAX)."""
PriorityKey = Annotated[
    KeyNumber, Field(ge=0, le=15), WithJsonSchema({"type": "string", "pattern": "^([0-9]|1[0-5])$"})
]
"""The same as the key of a mapping."""
