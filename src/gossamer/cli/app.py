"""The application: which nouns exist, and how every command ends.

A noun is one module here that holds `app = options.Noun()`, and one line in `NOUNS`. The module is
imported when its noun is used, so it may import what it needs at its top without slowing the others.
A command raises; only `main` turns what was raised into a line and an exit code.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import FrameType
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from gossamer import __version__, shutdown
from gossamer.cli import exit_codes, output
from gossamer.errors import GossamerError, SettingError, SiteError
from gossamer.settings import BY_NAME, load

NOUNS: Mapping[str, str] = {
    "demo": "gossamer.cli.run.demo",
    "crawl": "gossamer.cli.run.crawl",
    "work": "gossamer.cli.run.work",
    "plan": "gossamer.cli.run.plan",
    "doctor": "gossamer.cli.setup.doctor",
    "acl": "gossamer.cli.setup.acl",
    "export": "gossamer.cli.transfer.export",
    "exporter": "gossamer.cli.setup.exporter",
    "import": "gossamer.cli.transfer.import_",
    "migrate": "gossamer.cli.transfer.migrate",
    "init": "gossamer.cli.setup.init",
    "status": "gossamer.cli.view.status",
    "top": "gossamer.cli.view.top",
    "settings": "gossamer.cli.setup.settings",
    "task": "gossamer.cli.steer.task",
    "dead": "gossamer.cli.steer.dead",
    "items": "gossamer.cli.steer.items",
    "group": "gossamer.cli.steer.group",
    "lane": "gossamer.cli.steer.lane",
    "page": "gossamer.cli.steer.page",
    "host": "gossamer.cli.steer.host",
    "worker": "gossamer.cli.steer.worker",
    "seen": "gossamer.cli.steer.seen",
    "site": "gossamer.cli.site.site",
    "spider": "gossamer.cli.steer.spider",
    "round": "gossamer.cli.steer.round",
    "report": "gossamer.cli.view.report",
    "alert": "gossamer.cli.view.alert",
}

INTERRUPT_AGAIN_SECONDS = 0.01


class NounGroup(typer.core.TyperGroup):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(NOUNS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in NOUNS:
            return None
        command = typer.main.get_command(import_module(NOUNS[cmd_name]).app)
        command.name = cmd_name
        _hide_types(command)
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in NOUNS:
            # The suggestions for a misspelt noun are drawn from here.
            self.commands = dict.fromkeys(NOUNS)  # type: ignore[assignment]
        return super().resolve_command(ctx, args)


def _hide_types(command: Any) -> None:
    """Leave `<list[Path]>` and the like out of the help: a Python type means nothing to users."""
    for argument in (p for p in command.params if p.param_type_name == "argument"):
        argument.display_type_rich = lambda ctx: None
    for below in getattr(command, "commands", {}).values():
        _hide_types(below)


app = typer.Typer(
    cls=NounGroup,
    invoke_without_command=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Every read takes --json. Settings come from the environment, gossamer.toml or Scrapy's settings: see gossamer settings.",
)


def _version(wanted: bool) -> None:
    if wanted:
        output.write_line(f"gossamer {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """A crawl fleet for Scrapy: any number of workers on one shared frontier that loses nothing."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (see `exits.EXIT_CODES`).

    What goes wrong is one line on standard error; GOSSAMER_TRACEBACK=1 adds where it was raised.
    """
    if arguments is None:
        # This process is ours.
        sys.unraisablehook = _repeat_interrupt
    code = _main(arguments)
    if arguments is None:
        shutdown.limited(code)
    return code


def _repeat_interrupt(unraisable: sys.UnraisableHookArgs) -> None:
    """Send Ctrl-C again when it arrived inside a `__del__`: Python prints an exception raised there and drops it."""
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
        threading.Thread(target=_interrupt_after_hook, args=(threading.get_ident(),), daemon=True).start()
    else:
        sys.__unraisablehook__(unraisable)


def _interrupt_after_hook(thread: int) -> None:
    """Wait until the thread has left `_repeat_interrupt`: what is raised in there is dropped as well."""
    while _in_hook(sys._current_frames().get(thread)):
        time.sleep(INTERRUPT_AGAIN_SECONDS)
    os.kill(os.getpid(), signal.SIGINT)


def _in_hook(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code is _repeat_interrupt.__code__:
            return True
        frame = frame.f_back
    return False


def _main(arguments: Sequence[str] | None) -> int:
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        return exit_codes.PIPE_CLOSED
    except OSError as error:
        _discard_output()
        named = f"{error.filename}: " if error.filename else ""
        return _fail(error, f"{named}{error.strerror or error}.", exit_codes.FAILED)
    return code


def _discard_output() -> None:
    # The interpreter flushes standard output once more at exit and would complain again.
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, sys.stdout.fileno())
    os.close(sink)


def _run(arguments: Sequence[str] | None) -> int:
    command = typer.main.get_command(app)
    try:
        result = command.main(arguments, prog_name="gossamer", standalone_mode=False)
    except GossamerError as error:
        return _fail(error, str(error), error.exit_code)
    except typer.Abort:
        return _fail(None, "stopped at the question; nothing was changed.", exit_codes.FAILED)
    except typer.TyperException as error:
        return _fail(None, _usage_message(error), exit_codes.MISUSED)
    except OSError:
        raise
    except SystemExit as ended:
        # Typer ends the process itself when the reader of the output has left.
        if isinstance(ended.__context__, BrokenPipeError):
            raise ended.__context__ from None
        raise
    except KeyboardInterrupt:
        result = exit_codes.INTERRUPTED
    except Exception as error:
        return _fail(
            error,
            f"unforeseen {type(error).__name__}: {error}. GOSSAMER_TRACEBACK=1 shows where; please report it.",
            exit_codes.BUG,
        )
    code = result if isinstance(result, int) else exit_codes.OK
    if code == exit_codes.INTERRUPTED:
        output.write_notice("interrupted")
    return code


def _fail(error: Exception | None, message: str, code: int) -> int:
    if error is not None and _wants_traceback():
        traceback.print_exception(error)
    # All mistakes of site files are reported together, one line each.
    for line in message.splitlines() if isinstance(error, SiteError) else [message]:
        output.write_error(line)
    return code


def _usage_message(error: typer.TyperException) -> str:
    said = error.format_message()
    stop = "" if said.endswith((".", "?", "!")) else "."
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "gossamer"
    return f"{said}{stop} See `{path} --help`."


def _wants_traceback() -> bool:
    name = "GOSSAMER_TRACEBACK"
    try:
        return bool(load()[name])
    except SettingError:
        # Another setting is what went wrong; the environment alone still counts.
        try:
            return bool(BY_NAME[name].parse(os.environ.get(name, "0"), "environment"))
        except SettingError:
            return True
