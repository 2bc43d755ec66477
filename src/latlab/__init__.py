"""latlab: how late time-sensitive packets arrive when a virtual machine is in the path, and why."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from latlab.notebook import load as load

__version__ = "0.2.0"

__all__ = ["__version__", "load"]


def __getattr__(name: str) -> Any:
    # The tables' libraries take a while to import: only who asks for `load` pays for them.
    if name == "load":
        from latlab.notebook import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
