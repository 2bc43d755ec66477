"""latlab: how late time-sensitive packets arrive when a virtual machine is in the path, and why."""

__version__ = "0.1.0"
