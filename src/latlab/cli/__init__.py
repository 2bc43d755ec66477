"""The command line: verbs, thin. Each does one call and prints what came of it."""

from latlab.cli.app import app
from latlab.cli.start import main

__all__ = ["app", "main"]
