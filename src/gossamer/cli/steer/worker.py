"""`gossamer worker`: who works on a crawl."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from gossamer.cli import options, output
from gossamer.cli.options import argument, option
from gossamer.cli.view.status import ago, serves, state
from gossamer.errors import UnknownWorker
from gossamer.model import WorkerInfo
from gossamer.status.overview import is_alive, worker_json

app = options.Noun("The workers of a crawl.")
Names = Annotated[list[str], argument("WORKER", "Name, incarnation, or the first letters of an incarnation.")]


@app.command("list")
def list_(json: options.Json = False, where: options.Where = options.HERE) -> None:
    """List the workers, longest silent first.

    A worker that ends takes itself off the list. One that was killed is shown as silent as long as it holds something, which
    goes to others; --json lists it for an hour.
    """
    with where.find() as frontier:
        now, workers = frontier.counts().now, frontier.workers()
    if json:
        output.write_json([worker_json(x, now) for x in workers])
        return
    present = [x for x in workers if x.held or is_alive(x, now)]
    # The rest of a worker's info is in the JSON.
    output.write_table(
        ("worker", "incarnation", "serves", "holds", "last seen", "state"),
        [
            (
                x.name,
                x.incarnation,
                serves(x),
                f"{x.held:,}",
                ago(now - x.seen),
                state(x, is_alive(x, now)),
            )
            for x in present
        ],
    )
    if gone := len(workers) - len(present):
        which = "1 more fell silent and holds" if gone == 1 else f"{gone:,} more fell silent and hold"
        output.write_notice(f"{which} nothing: see --json, or `gossamer worker forget`")


@app.command()
def drain(workers: Names, where: options.Where = options.HERE) -> None:
    """Ask workers to take nothing more.

    They finish what they hold and end, with exit code 0. Until they have ended, `gossamer worker undrain` cancels this.
    """
    _drain(workers, True, where)


@app.command()
def undrain(workers: Names, where: options.Where = options.HERE) -> None:
    """Let draining workers take work again."""
    _drain(workers, False, where)


@app.command()
def forget(
    silent: Annotated[
        float, option("--silent", "TIME", "Only those silent for at least this time.", parser=options.seconds)
    ] = "1h",  # type: ignore[assignment]
    yes: options.Yes = False,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Remove workers from the list that were silent for long.

    Only those that hold nothing. A worker that comes back is listed again, without its info.
    """
    with where.find() as frontier:
        now, known = frontier.counts().now, frontier.workers()
        gone = [worker for worker in known if worker.held == 0 and now - worker.seen >= silent]
        if gone:
            options.confirm(f"Forget {len(gone):,} of {output.counted(len(known), 'worker')}?", yes)
        # A call strikes a bounded number.
        while gone and frontier.forget_workers(silent):
            pass
        left = frontier.workers()
    output.write_answer(
        json,
        {"forgotten": len(known) - len(left), "left": len(left)},
        f"{output.counted(len(known) - len(left), 'worker')} forgotten, {len(left):,} left",
    )


def _drain(names: Sequence[str], draining: bool, where: options.Where) -> None:
    with where.find() as frontier:
        known = frontier.workers()
        # All are looked up before the first is asked: a misspelt name changes nothing.
        for worker in [_found(known, name) for name in names]:
            frontier.drain_worker(worker.incarnation, draining)
            where.log(frontier, "drain" if draining else "undrain", f"worker {worker.name}")
            name = worker.name
            held = f"; it holds {output.counted(worker.held, 'lease')}" if draining and worker.held else ""
            output.write_line(f"worker {name} {'takes nothing more' + held if draining else 'takes work again'}")


def _found(known: Sequence[WorkerInfo], name: str) -> WorkerInfo:
    exact = [worker for worker in known if name == worker.incarnation]
    found = exact or [worker for worker in known if name and name == worker.name]
    found = found or [worker for worker in known if name and worker.incarnation.startswith(name)]
    if not found:
        raise UnknownWorker(f"there is no worker {name!r} in this crawl; `gossamer worker list` names them.")
    if len(found) > 1:
        several = ", ".join(worker.incarnation for worker in found)
        raise UnknownWorker(f"{name!r} is the name of several workers: {several}. Give an incarnation.")
    return found[0]
