"""`python -m gossamer.testing.examples NAME`: one of the example sites, until Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import sys

from gossamer.testing.examples import EXAMPLES


def main(arguments: list[str] | None = None) -> int:
    """Serve an example site on this machine, print its address, go on until SIGTERM or Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m gossamer.testing.examples", description=main.__doc__)
    parser.add_argument("name", choices=list(EXAMPLES), help="which one")
    parser.add_argument("--port", type=int, help="the (first) port, 0: a free one; without it, that of its site file")
    given = parser.parse_args(arguments)
    kind = EXAMPLES[given.name]
    # Before it serves: a signal that comes while it starts must not be lost.
    ends = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    try:
        example = kind(kind.port if given.port is None else given.port)
    except OSError as error:
        print(f"{given.name} cannot be served: {error.strerror}. Choose another --port.", file=sys.stderr)
        return 1
    with example:
        more = f" to {example.urls[-1]}" if example.hosts > 1 else ""
        print(f"{example.url}{more}", flush=True)
        signal.sigwait(ends)
    return 0


if __name__ == "__main__":
    sys.exit(main())
