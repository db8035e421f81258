"""`gossamer exporter`: the crawl as Prometheus metrics."""

from __future__ import annotations

import logging
import signal
import threading
from typing import Annotated

from gossamer.cli import options, output
from gossamer.cli.options import option
from gossamer.exporter.server import ADDRESS, PORT, serve

app = options.Noun()


@app.command()
def exporter(
    port: Annotated[int, option("--port", "", "Port to listen on; 0: any free one.", min=0, max=65535)] = PORT,
    address: Annotated[
        str, option("--address", "ADDRESS", "Address to listen on; 0.0.0.0 is every IPv4 one.")
    ] = ADDRESS,
    where: options.Where = options.HERE,
) -> None:
    """Serve the crawl's metrics to Prometheus.

    Each scrape asks the frontier once, at a cost that does not grow with what is queued; scrapes within two seconds
    share an answer. While the frontier is unreachable, the page says gossamer_up 0. It stores nothing: start as many
    as you like, stop them at any time with Ctrl-C or SIGTERM.
    """
    settings = where.settings()
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    with serve(settings, address, port) as bound:
        shown = f"[{address}]" if ":" in address else address
        output.write_notice(f"metrics of crawl {settings['GOSSAMER_CRAWL']} at http://{shown}:{bound}/metrics")
        ended.wait()
