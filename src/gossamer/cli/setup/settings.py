"""`gossamer settings`: every setting, the value in force and where it comes from."""

from __future__ import annotations

from gossamer.cli import options, output
from gossamer.settings import SETTINGS

app = options.Noun()


@app.command()
def settings(json: options.Json = False, where: options.Where = options.HERE) -> None:
    """List every setting with its present value.

    Also shows where the value comes from and what it is for. A value comes from the first of these that has one: the
    command line, the environment, the settings of the Scrapy project here, the table [gossamer] of gossamer.toml in the
    working directory or, if it has none, in the nearest folder up to that of scrapy.cfg, the default. Passwords in URLs
    are not shown.
    """
    loaded = where.settings()
    rows = [(s.name, s.shown(loaded[s.name]), loaded.source(s.name), s.help) for s in SETTINGS]
    columns = ("name", "value", "source", "help")
    if json:
        output.write_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        output.write_table(columns, rows)
