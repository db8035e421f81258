"""`gossamer exporter`: the crawl as Prometheus metrics."""

from __future__ import annotations

import logging
import signal
import threading
from typing import Annotated

import typer

from gossamer.cli import options, output
from gossamer.exporter.server import ADDRESS, PORT, serve

app = options.noun()


@app.command()
def exporter(
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0: any free one.")] = PORT,
    address: Annotated[
        str, typer.Option("--address", metavar="ADDRESS", help="Address to listen on; 0.0.0.0 is every IPv4 one.")
    ] = ADDRESS,
    url: options.Url = None,
    crawl: options.Crawl = None,
) -> None:
    """Serve the crawl's metrics to Prometheus.

    Each scrape asks the frontier once, at a cost that does not grow with what is queued; scrapes within two seconds
    share an answer. While the frontier is away the page says gossamer_up 0. Keeps nothing itself: start as many as
    you like, stop them at any time with Ctrl-C or SIGTERM.
    """
    settings = options.load_settings(url, crawl)
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    with serve(settings, address, port) as bound:
        shown = f"[{address}]" if ":" in address else address
        output.write_notice(f"metrics of crawl {settings['GOSSAMER_CRAWL']} at http://{shown}:{bound}/metrics")
        ended.wait()
