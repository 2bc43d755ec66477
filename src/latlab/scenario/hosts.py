"""The kinds of hosts a scenario can name. A new kind is one model here and one name in `Host`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from latlab.scenario.parts import Part


class LocalHost(Part):
    """This machine, in its own network namespace."""

    kind: Literal["local"]


class NetnsHost(Part):
    """A network namespace of this machine, made for the run and removed afterwards."""

    kind: Literal["netns"]


Host = Annotated[LocalHost | NetnsHost, Field(discriminator="kind")]


def is_existing(host: LocalHost | NetnsHost) -> bool:
    """True where the host and its interfaces are there before the run."""
    return isinstance(host, LocalHost)
