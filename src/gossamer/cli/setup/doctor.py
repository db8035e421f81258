"""`gossamer doctor`: whether the server can carry a crawl, and what to do if not."""

from __future__ import annotations

import typer

from gossamer.cli import exit_codes, options, output
from gossamer.doctor import CheckState, examine

app = options.Noun()
_MARKS = {CheckState.GOOD: True, CheckState.DOUBTFUL: None, CheckState.BAD: False}


@app.command()
def doctor(json: options.Json = False, where: options.Where = options.HERE) -> None:
    """Check settings, connection and server one by one.

    Each problem is shown with its remedy. A tick means that all is well, ! that it works but deserves attention, a
    cross that a guarantee of the frontier does not hold: then the exit code is 1. Changes nothing and creates no crawl.
    The embedded server is started if it does not run but has data.
    """
    checks = list(examine(where.settings()))
    bad = [check for check in checks if check.state is CheckState.BAD]
    if json:
        output.write_json({"ok": not bad, "checks": [{**c._asdict(), "state": c.state.value} for c in checks]})
    else:
        rows = [(output.mark(_MARKS[c.state], "!"), c.name, c.found, c.remedy) for c in checks]
        output.write_table(("", "checked", "found", "to do"), rows)
    if bad:
        raise typer.Exit(exit_codes.FAILED)
