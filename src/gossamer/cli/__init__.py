"""The command line: `gossamer <noun> <verb>`."""

from gossamer.cli.app import main

__all__ = ["main"]
