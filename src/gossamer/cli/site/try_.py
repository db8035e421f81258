"""`gossamer site try`: one page, fetched and read, with all that was decided on the way."""

from __future__ import annotations

import asyncio
import json as json_
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from gossamer.cli import exit_codes, options, output, params
from gossamer.cli.options import argument, flag, option
from gossamer.errors import SiteError
from gossamer.model.page import Response
from gossamer.registry import KIND, Registry
from gossamer.sites.check.grant import check_grant
from gossamer.sites.check.hooks import check_hooks
from gossamer.sites.compile import CompiledSite, compile_site
from gossamer.sites.downloader import Downloader
from gossamer.sites.file.environment import variables
from gossamer.sites.file.grant import Grant, grant_of
from gossamer.sites.file.load import LoadedSite, sound, survey, survey_texts
from gossamer.sites.file.problems import SiteErrors, did_you_mean
from gossamer.sites.page import PageVerdict

KINDS = {".html": "text/html", ".htm": "text/html", ".json": "application/json", ".xml": "application/xml"}


def try_(
    page: Annotated[str, argument("URL", "The page; or a file, if --as gives its URL.")],
    file: Annotated[Path | None, option("--file", "FILE", "A site file; without it, those of the crawl.")] = None,
    site: Annotated[str, option("--site", "NAME", "Which site, if several match.")] = "",
    layer: Annotated[str, option("--layer", "NAME", "Read it by this layer, whatever matches.")] = "",
    as_: Annotated[str, option("--as", "URL", "Read a file on this machine as if it had come from there.")] = "",
    inherited: Annotated[
        str, option("--pass", "JSON", "What the page inherits from its parent, as a JSON object.")
    ] = "",
    save: Annotated[str, option("--save", "CASE", "Keep page and result beside the site file, as a test case.")] = "",
    force: Annotated[bool, flag("--force", "Overwrite a case of that name.")] = False,
    param: params.Given = None,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Fetch one page and show what the site makes of it.

    Shows layer, fields, links, verdict and time. The page is fetched as a worker does it, with the layer's request
    options, robots.txt, redirects and hooks; of a site with engine: scrapy, through Scrapy. Nothing is queued or
    stored. Ends with exit code 1 if the page is not read, or not as it should be.
    """
    if save and file is None:
        raise typer.BadParameter("--save keeps the case beside the site file; name it with --file")
    address = as_ or page
    if not address.startswith(("http://", "https://")):
        raise typer.BadParameter(f"{address} is not a URL; give the URL of a file with --as")
    if as_ and not Path(page).is_file():
        raise typer.BadParameter(f"there is no file {page}; without --as, a URL is fetched")
    passed = _passed(inherited)
    given = params.values(param)
    grant = grant_of(where.settings(), local=file is not None, files=[file] if file else [])
    loaded = sound(survey(file, given)) if file is not None else _kept(where, given)
    chosen = _site(loaded, site, address, grant)

    # Here, not above: the libraries for fetching take a moment to load, and other verbs do not need them.
    from gossamer.cli.site import trial_output as tell
    from gossamer.engine.sites import ServedSite
    from gossamer.engine.trial import cases
    from gossamer.engine.trial.trial import Trial, TrialResult, choose

    served = ServedSite(chosen)
    layer_of = choose(chosen, address, layer)

    def open_downloader() -> Downloader:
        from gossamer.scrapy.site.spider import ScrapyDownloader

        return ScrapyDownloader({}, 1)

    async def run() -> TrialResult:
        trial = Trial(open_downloader if chosen.site.engine == "scrapy" and not as_ else None)
        try:
            if as_:
                kind = KINDS.get(Path(page).suffix.lower(), "application/octet-stream")
                body = Path(page).read_bytes()
                document = Response(as_, 200, {"content-type": kind}, body, passed, fetched=time.time())
                return await trial.read(served, layer_of, document)
            return await trial.fetch(served, layer_of, page, passed)
        finally:
            await trial.close()

    tried = asyncio.run(run())
    if json:
        output.write_json(tell.as_json(chosen, tried))
    else:
        tell.write(chosen, tried)
    if save:
        if tried.document is None or tried.reading is None or file is None:
            output.write_notice("there is nothing to save")
        else:
            case = cases.SavedCase(save, chosen.name, layer_of.layer, tried.document, cases.reading_json(tried.reading))
            output.write_notice(f"saved in {cases.save(file, case, force=force)}")
    if tried.reading is None or tried.reading.verdict is not PageVerdict.OK:
        raise typer.Exit(exit_codes.FAILED)


def _kept(where: options.Where, given: Mapping[str, Any]) -> list[LoadedSite]:
    with where.find() as frontier:
        files = Registry(frontier).files()
        texts = [(frontier.document(KIND, each.info.name).text, each.info.name) for each in files if not each.problem]
    if not texts:
        raise SiteError("This crawl has no site files. Name one with --file, or push one with `gossamer site push`.")
    return sound(survey_texts(texts, given))


def _site(sites: list[LoadedSite], wanted: str, url: str, grant: Grant) -> CompiledSite:
    """The site called so; or the only one; or the only one that a layer of matches."""
    if wanted:
        named = [one for one in sites if one.site.site == wanted]
        if not named:
            hint = did_you_mean(wanted, [one.site.site for one in sites])
            raise SiteError(f"There is no site {wanted}{f' ({hint})' if hint else ''}.")
        return compiled(named[0], grant)
    if len(sites) == 1:
        return compiled(sites[0], grant)
    # Variables need not be set here for sites that are not meant.
    blind = {name: "-" for one in sites for name in variables(one.site)}
    fitting = [one for one in sites if compile_site(one.site, environment=blind).layer_of(url) is not None]
    if len(fitting) == 1:
        return compiled(fitting[0], grant)
    if not fitting:
        raise SiteError(f"No layer of the {len(sites)} sites matches {url}. Choose a site with --site, and a --layer.")
    names = ", ".join(one.site.site for one in fitting[:10])
    raise SiteError(f"{len(fitting)} sites match {url}: {names}. Choose one with --site.")


def compiled(loaded: LoadedSite, grant: Grant) -> CompiledSite:
    """The site, ready for use; SiteErrors for what is not granted to it."""
    if wrong := check_grant(loaded.site, loaded.spot, grant) or check_hooks(loaded.site, loaded.spot, grant):
        raise SiteErrors(wrong)
    return compile_site(loaded.site, grant=grant)


def _passed(text: str) -> Mapping[str, Any]:
    if not text:
        return {}
    try:
        data = json_.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"--pass is not valid JSON: {error}") from None
    if not isinstance(data, dict):
        raise typer.BadParameter('--pass must be a JSON object, as {"forum": "python"}')
    return data
