"""`gossamer site reconcile`: parents whose children are missing in the database, queued again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gossamer.cli import exit_codes, options, output, progress
from gossamer.cli.options import argument, flag, option
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.registry import KIND, Registry
from gossamer.sites.check.grant import check_grant
from gossamer.sites.compile import CompiledSite, compile_site
from gossamer.sites.file.grant import Grant, grant_of
from gossamer.sites.file.load import LoadedSite, sound, survey, survey_text
from gossamer.sites.file.problems import SiteErrors

if TYPE_CHECKING:
    from gossamer.engine.reconcile import ReconcileResult


def reconcile(
    site: Annotated[str, argument("SITE", "The site.")],
    parent: Annotated[str, option("--parent", "LAYER", "Only pages of this layer.")] = "",
    child: Annotated[
        str, option("--child", "LAYER", "Only what this layer lacks; or a field with nested records.")
    ] = "",
    file: Annotated[
        Path | None, option("--file", "FILE", "Your own site file, instead of the one that the crawl has.")
    ] = None,
    dry_run: Annotated[bool, flag("--dry-run", "Only report how many there are.")] = False,
    again: Annotated[
        bool, flag("--again", "Also those that a former call has queued and that may still wait.")
    ] = False,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Queue stored pages again whose children are missing.

    A page is queued again if nothing is stored of the pages that it leads to. The tables show that: the parent's must
    have its url, the child's the column parent (`store.LAYER.add`). Without --parent and --child, this is done for all
    layers whose tables have them. Pages that an earlier call has queued are not queued again while their layer has work
    left.
    """
    # Here, not above: these libraries take a moment to load, and other verbs do not need them.
    from gossamer.engine import reconcile as work

    settings = where.settings()
    results: list[work.ReconcileResult] = []
    with ValkeyFrontier.find(settings) as frontier:
        loaded = sound(survey(file)) if file is not None else _kept(frontier, site)
        compiled = _compiled(loaded, site, grant_of(settings, local=file is not None, files=[file] if file else []))
        pairs = work.pairs(compiled, parent, child)
        work.check_ran(frontier, compiled)
        with (
            work.opened(compiled, settings) as store,
            progress.live("reconciling", None, sys.stderr, "pages") as show,
        ):
            say = progress.throttled(show)
            for pair in pairs:
                links = work.missing(store, compiled, pair)
                if dry_run:
                    results.append(work.ReconcileResult(pair, missing=sum(1 for _ in links)))
                    continue
                results.append(
                    work.queue(
                        frontier,
                        compiled,
                        pair,
                        links,
                        limit=settings["GOSSAMER_PAYLOAD_MAX_BYTES"],
                        again=again,
                        heard=lambda result: say(result.missing, {"queued": result.queued}),
                    )
                )
    _tell(results, dry_run, json)
    if any(one.full or one.refused for one in results):
        raise typer.Exit(exit_codes.FAILED)


def _tell(results: list[ReconcileResult], dry_run: bool, json: bool) -> None:
    if json:
        output.write_json(
            [
                {
                    "parent": one.pair.parent, "child": one.pair.child, "missing": one.missing, "queued": one.queued,
                    "waiting": one.waiting, "full": one.full, "refused": one.refused,
                }
                for one in results
            ]
        )  # fmt: skip
    else:
        output.write_table(
            ("parent", "child", "without a child", "queued", "queued before"),
            [
                (one.pair.parent, one.pair.child, f"{one.missing:,}", f"{one.queued:,}", f"{one.waiting:,}")
                for one in results
            ],
        )
    for one in results:
        for why in one.refused[:10]:
            output.write_notice(f"cannot be queued: {why}")
        if one.full:
            output.write_notice(f"the layer {one.pair.parent} is full; call again when there is room")
    if not dry_run and any(one.queued for one in results):
        output.write_notice("workers of the site take them up; `gossamer work` starts one")


def _kept(frontier: ValkeyFrontier, name: str) -> list[LoadedSite]:
    info = Registry(frontier).find(name)
    return sound(survey_text(frontier.document(KIND, info.name).text, info.name))


def _compiled(loaded: list[LoadedSite], name: str, grant: Grant) -> CompiledSite:
    sites = {one.site.site: one for one in loaded}
    if name not in sites and len(sites) > 1:
        raise typer.BadParameter(
            f"the file {name} describes {len(sites)} sites; name one of {', '.join(list(sites)[:10])}"
        )
    chosen = sites.get(name) or next(iter(sites.values()))
    if wrong := check_grant(chosen.site, chosen.spot, grant):
        raise SiteErrors(wrong)
    return compile_site(chosen.site, grant=grant)
