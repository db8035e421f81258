"""What the exit codes of commands mean, in one table."""

from __future__ import annotations

from collections.abc import Mapping

OK = 0
FAILED = 1
MISUSED = 2
FRONTIER = 3
LACKING = 4
UNFINISHED = 5
BUG = 70
INTERRUPTED = 130
PIPE_CLOSED = 141

EXIT_CODES: Mapping[int, str] = {
    OK: "The command succeeded.",
    FAILED: "The command ran and reported a failure; or you answered no when it asked.",
    MISUSED: "The command line, a setting or a value given by the caller cannot be used. Nothing was changed.",
    FRONTIER: "The frontier or its server could not be reached, or refused the call. Trying again may help.",
    LACKING: "The crawl ended, but a feed lacks items: the worker's log says which, why, and where they are. Or a file of `items export` or of `crawl -O` lacks some that are not on the server any more.",
    UNFINISHED: "A worker ended because nothing was left, but its server was replaced or lost data meanwhile. Start another worker; `gossamer crawl` does.",
    BUG: "An unexpected error. Please report it with the output under GOSSAMER_TRACEBACK=1.",
    INTERRUPTED: "Interrupted by Ctrl-C.",
    PIPE_CLOSED: "The reader of the output stopped reading.",
}
