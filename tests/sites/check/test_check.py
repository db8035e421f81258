"""What no single key can tell: whether a site file fits together."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gossamer.sites.check import expressions, requirements
from gossamer.sites.check.hooks import check_hooks, hooks_of
from gossamer.sites.file.grant import Grant
from gossamer.sites.file.load import load_text, survey_text
from gossamer.store.database import url

BEGIN = "site: s\nseeds: http://s.example/\n"


def told(text: str) -> list[str]:
    return [str(problem) for problem in survey_text(text, "f.yaml").problems]


def layer(text: str) -> str:
    return f"{BEGIN}layers:\n  a: {{match: ^/, fields: {{t: h1, u: h2}}, {text}}}\n  b: {{match: ^/b}}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        # layers that exist
        (layer("follow: [{css: a, to: bb}]"), "layers.a.follow[0].to: there is no layer bb (did you mean b?)"),
        ("site: s\nseeds: {url: http://s.example/, layer: x}\nlayers: {a: {}}\n", "seeds.layer: there is no layer x (there is only a)"),
        (BEGIN + "layers: {}\n", "layers: there are no layers (a site has at least one)"),
        (BEGIN + "layers: {a: {}, _feed: {}}\n", "_feed cannot be the name of a layer"),
        # small languages
        (layer("match: '^/(a'").replace("match: ^/, ", ""), "match: this is not a regular expression: missing ), unterminated subpattern at character 3 (a ( has no ); write \\( for the sign itself)"),
        (layer("encoding: utf-9"), "encoding: there is no character set utf-9"),
        (layer("follow: [{regex: '*a'}]"), "follow[0].regex: this is not a regular expression: nothing to repeat"),
        (layer("follow: [{css: 'a[', to: b}]"), "follow[0].css: this is not a CSS selector"),
        (layer("follow: ['//a']"), "follow[0].css: this is not a CSS selector: expected selector, got <DELIM '/' at 0> (this looks like XPath)"),
        (layer("follow: [{css: a, when: 'a['}]"), "follow[0].when: this is not a JMESPath expression at character 3"),
        (layer("follow: [{css: a, match: '('}]"), "follow[0].match: this is not a regular expression"),
        (layer("follow: [{css: a, skip: '('}]"), "follow[0].skip: this is not a regular expression"),
        (layer("follow: [{css: a, pass: {x: 'b['}}]"), "follow[0].pass.x: this is not a JMESPath expression"),
        (layer("valid: {content_type: '('}"), "valid.content_type: this is not a regular expression"),
        (layer("valid: {status: [200, 99]}"), "valid.status[1]: 99 is not a status"),
        (layer("records: {xpath: '//a['}"), "records.xpath: this is not an XPath expression: invalid expression"),
        (layer("records: {}"), "records: nothing says where the records are"),
        (BEGIN + "schedule: {cron: '61 * * * *'}\nlayers: {a: {}}\n", "schedule.cron: this is not a cron expression: bad minute (minute hour day month weekday, as */10 * * * *)"),
        (BEGIN + "schedule: {every: 1h, blackout: {from: 22:00, to: 06:00, tz: Europe/Berlni}}\nlayers: {a: {}}\n", "schedule.blackout.tz: there is no time zone Europe/Berlni (did you mean Europe/Berlin?)"),
        (BEGIN + "schedule: {every: 1h, blackout: {from: 0:00, to: 24:00}}\nlayers: {a: {}}\n", "schedule.blackout: no round would ever begin (name fewer hours or days)"),
        (BEGIN + "schedule: {cron: '0 0 * * *', tz: Europe/Berlni}\nlayers: {a: {}}\n", "there is no time zone Europe/Berlni (did you mean Europe/Berlin?)"),
        (BEGIN + "schedule: {cron: '0 */10 * * * *'}\nlayers: {a: {}}\n", "schedule.cron: this cron expression has 6 fields, not five (seconds and years are not named; write */10 * * * *)"),
        (BEGIN + "schedule: {cron: '0 0 12 * * ? 2026'}\nlayers: {a: {}}\n", "schedule.cron: this cron expression has 7 fields, not five (seconds and years are not named; write 0 12 * * *)"),
        (BEGIN + "schedule: {every: 1M}\nlayers: {a: {}}\n", "schedule.every: '1M' is not a duration: M may mean minutes or months (write 1m for minutes, or days (30d))"),
        (BEGIN + "layers: {a: {fields: {t: {css: b, type: date, format: '%d.%Q'}}}}\n", "fields.t.format: no part of a date is written %Q (as %d.%m.%Y, %H:%M; %% stands for % itself)"),
        (BEGIN + "layers: {a: {fields: {t: {css: b, type: date, format: '%d.%m.%d %Y'}}}}\n", "fields.t.format: this format names the same part twice: %d"),
        (BEGIN + "layers: {a: {fields: {t: {css: b, type: date, format: '%d.%m.%Y %'}}}}\n", "fields.t.format: no part of a date is written %"),
        (BEGIN + "layers: {a: {fields: {t: b}}}\nstore: {a: {table: sqlite_shop, key: [t]}}\n", "store.a.table: SQLite keeps names that begin with sqlite_ for itself (choose another name)"),
        (BEGIN + "layers: {a: {fields: {t: b}}}\nstore: {a: {table: '', key: [t]}}\n", "store.a.table: the name of the table is empty"),
        (BEGIN + f"layers: {{a: {{fields: {{t: b}}}}}}\nstore: {{a: {{table: {'x' * 60}, key: [t], archive: true}}}}\n", "is too long to be put aside when a round begins"),
        # fields
        (BEGIN + "layers: {a: {fields: {t: {xpath: 'foo(.)'}}}}\n", "fields.t.xpath: this is not an XPath expression: unregistered function"),
        (BEGIN + "layers: {a: {fields: {t: {css: a, tz: Mars/X}}}}\n", "fields.t.tz: there is no time zone Mars/X"),
        (BEGIN + "layers: {a: {fields: {t: {css: a, jmespath: 'foo(@)'}}}}\n", "fields.t.jmespath: this JMESPath expression cannot be used: unknown function: foo()"),
        (BEGIN + "layers: {a: {fields: {t: {css: a, clean: [{remove: '('}]}}}}\n", "fields.t.clean[0].remove: this is not a regular expression"),
        (BEGIN + "layers: {a: {fields: {t: {css: a, clean: [{replace: ['(a)', '\\2']}]}}}}\n", "fields.t.clean[0].replace[1]: this replacement cannot be used: invalid group reference"),
        (BEGIN + "layers: {a: {fields: {t: {each: {css: 'a['}, fields: {x: b}}}}}\n", "fields.t.each.css: this is not a CSS selector"),
        (BEGIN + "layers: {a: {fields: {t: {each: {}, fields: {x: b}}}}}\n", "fields.t.each: nothing says where the records are"),
        (BEGIN + "layers: {a: {fields: {t: {each: b, fields: {x: 'b['}}}}}\n", "fields.t.fields.x.css: this is not a CSS selector"),
        (BEGIN + "layers: {a: {format: json, fields: {t: h1}}}\n", "fields.t.css: css finds nothing in pages of format json (use jmespath)"),
        (BEGIN + "layers: {a: {format: csv, fields: {t: h1}}}\n", "fields.t.css: css finds nothing in pages of format csv (use jmespath)"),
        (BEGIN + "layers: {a: {records: {table: 't['}, fields: {t: {jmespath: t}}}}\n", "records.table: this is not a CSS selector"),
        (BEGIN + "layers: {a: {records: {table: t}, fields: {t: td}}}\n", "fields.t.css: css finds nothing in the row of a table (write jmespath: the name of a column)"),
        (BEGIN + "layers: {a: {fields: {t: {each: {table: t}, fields: {x: td}}}}}\n", "fields.t.fields.x.css: css finds nothing in the row of a table"),
        (BEGIN + "layers: {a: {fields: {t: {table: t, attr: x, type: json}}}}\n", "fields.t.attr: only elements have attributes"),
        (BEGIN + "layers: {a: {format: csv, records: {table: t}, fields: {t: {jmespath: t}}}}\n", "records.table: table finds nothing in pages of format csv"),
        (BEGIN + "layers: {a: {follow: {table: t}}}\n", "the rows of a table are no links"),
        (BEGIN + "layers: {a: {format: text, follow: {xpath: //a}}}\n", "follow.xpath: xpath finds nothing in pages of format text (use regex)"),
        (BEGIN + "layers: {a: {fields: {t: {regex: x, attr: href}}}}\n", "only elements have attributes (write css or xpath)"),
        (BEGIN + "layers: {a: {fields: {t: {regex: x, html: true}}}}\n", "only elements have markup"),
        (BEGIN + "layers: {a: {fields: {t: {from: fields.u, regex: x}, u: h1}}}\n", "fields.t.from: no field u is found before this one"),
        (BEGIN + "layers: {a: {fields: {t: {from: headers}}}}\n", "from: headers says no header (as headers.etag)"),
        (layer("require: [t, [u, tt]]"), "layers.a.require[1]: there is no field tt (did you mean t?)"),
        (layer("require: title"), "there is no field title"),
        # links
        (layer("follow: [{css: a, to: b, pages: 3}]"), "follow[0].pages: pages is for links to the same layer, a; these go to b (use limit, or leave it out)"),
        (layer("follow: [{url: '/x/{tt}', to: b}]"), "follow[0].url: {tt} is not a field, parameter or group of match (did you mean t?)"),
        (layer("follow: [{css: a, headers: {X: '{nobody}'}}]"), "follow[0].headers.X: {nobody} is not a field"),
        (layer("follow: [{css: a, pass: [t, v]}]"), "follow[0].pass[1]: there is no field v (there are t and u)"),
        (BEGIN + "params: {f: [x, y]}\nlayers: {a: {follow: {url: '/{f}', to: a}}}\n", "parameter f has several values; here it must have one"),
        (layer("follow: [{css: a, method: GET, body: x}]"), "a GET request has no body"),
        (BEGIN + "layers: {a: {follow: a}, b: {}}\n", "layers.a.follow: these links say no layer, and no layer has a match (write to, or match in a layer)"),
        # matches
        (BEGIN + "layers: {a: {match: '^/x/(?P<n>\\d+)'}, b: {match: '^/x/(\\d+).*$'}}\n", "layers.b.match: this is what layer a matches, so no URL comes here"),
        (BEGIN + "layers: {a: {match: ^/}, b: {match: ^/b, examples: [http://s.example/a]}}\n", "layers.b.examples[0]: http://s.example/a belongs to layer a"),
        (BEGIN + "layers: {a: {match: ^/}, b: {match: ^/b, examples: http://x.example/b}}\n", "http://x.example/b belongs to no layer"),
        (BEGIN + "layers: {a: {match: '.*', follow: b}, b: {match: ^/b}}\n", "warning: layers.a.match: this takes up whole URLs"),
        (BEGIN + "identity: {rewrite: [['(', x]]}\nlayers: {a: {}}\n", "identity.rewrite[0][0]: this is not a regular expression"),
        (layer("identity: {rewrite: [[a, '\\2']]}"), "layers.a.identity.rewrite[0][1]: this replacement cannot be used"),
        # requests
        (layer("request: {render: true}"), "layers.a.request.render: a browser makes pages only with engine: scrapy"),
        (BEGIN + "request: {render: true}\nlayers: {a: {}}\n", "request.render: a browser makes pages only"),
        (BEGIN + "proxies: {vip: {urls: http://p:1}}\nrequest: {proxy: vpi}\nlayers: {a: {}}\n", "request.proxy: there is no group of proxies vpi (did you mean vip?)"),
        (BEGIN + "proxies: {vip: {}}\nlayers: {a: {}}\n", "proxies.vip: this group has no proxy"),
        (BEGIN + "proxies: {vip: {urls: [p:1]}}\nlayers: {a: {}}\n", "proxies.vip.urls[0]: 'p:1' is not a URL of a proxy"),
        (BEGIN + "proxies: {vip: {urls: ['socks5://u:secret@p:1']}}\nlayers: {a: {}}\n", "proxies.vip.urls[0]: socks5 is not a kind of proxy that can be used"),
        (BEGIN + "proxies: {vip: {urls: ['SOCKS4a://${PROXY}']}}\nlayers: {a: {}}\n", "proxies.vip.urls[0]: SOCKS4a is not a kind of proxy that can be used"),
        (BEGIN + "request: {proxy: 'socks5h://p:1'}\nlayers: {a: {}}\n", "request.proxy: socks5h is not a kind of proxy that can be used"),
        (layer("request: {proxy: 'ftp://p:1'}"), "layers.a.request.proxy: 'ftp://p:1' is not a URL of a proxy"),
        (BEGIN + "database: 'postgresql://${}'\nlayers: {a: {}}\n", "database: ${ begins a variable here, and it has no name or no }"),
        ("site: s\nseeds: {tasks: t}\nrequest: {auth: [a, b]}\nlayers: {a: {}}\n", "request.auth: the seeds name no host that may see the password"),
        (BEGIN + "database: 'foo://x'\nlayers: {a: {}}\n", "database: this is not the URL of a database (there are sqlite, "),
        (BEGIN + "database: 'postgre://x/y'\nlayers: {a: {}}\n", "this is not the URL of a database (did you mean postgres?)"),
        (BEGIN + "database: records.db\nlayers: {a: {}}\n", "this is not the URL of a database (as sqlite:///records.db or "),
        # policies
        (BEGIN + "seen: {policy: rolling}\nlayers: {a: {}}\n", "seen: rolling needs one of window (seconds), count and rounds"),
        (BEGIN + "seen: {policy: hits, rounds: 3, scope: round}\nlayers: {a: {}}\n", "seen: a window of rounds needs the scope forever (the scope round forgets at each new round)"),
        (layer("seen: {policy: bloom, capacity: 1}"), "layers.a.seen: capacity 1 must lie between"),
        (BEGIN + "politeness: {delay: 100w}\nlayers: {a: {}}\n", "politeness: delay is 60480000.0 (it must be a finite number, at least 0 and at most 3.1536e+07)"),
        (BEGIN + "politeness: {hosts: {a.example: {delay: 100w}}}\nlayers: {a: {}}\n", "politeness: delay is 60480000.0"),
        (layer("revisit: {every: 1h, min: 2h, max: 1h}"), "layers.a.revisit: min is more than max"),
        (layer("revisit: 0s"), "layers.a.revisit: every is 0.0 (it must be from one second to ten years)"),
        (layer("revisit: {every: 1h, gone: 0}"), "layers.a.revisit.gone: "),
        (layer("rediscover: {finished: soon}"), "layers.a.rediscover.finished"),
        (layer("revisit: 1h, seen: {policy: bloom}"), "layers.a.seen: revisit makes the layer keep a record of every page, so the policy bloom has no effect"),
        (BEGIN + "politeness: {hosts: {'http://': {}}}\nlayers: {a: {}}\n", "politeness.hosts.http://: 'http://' is not a host"),
        ("site: 'a b'\nseeds: http://s.example/\nlayers: {a: {}}\n", "'a b' cannot be the name of a site"),
        # hooks
        (layer("hooks: {after_round: 'm:f'}"), "after_round is only for the site"),
        (layer("handler: 'm:f'"), "handler and fields exclude each other"),
        # seeds
        ("site: s\nseeds: ['http://s.example/[1-10:0]']\nlayers: {a: {}}\n", "seeds[0].url: [1-10:0] has a step of 0"),
        ("site: s\nseeds: ['http://s.example/{forum}']\nparams: {forun: [a]}\nlayers: {a: {}}\n", "seeds[0].url: there is no parameter forum (did you mean forun?)"),
        ("site: s\nseeds: [{url: http://s.example/, form: {q: '{forum}'}}]\nlayers: {a: {}}\n", "seeds[0]: there is no parameter forum (name it in params; {{name}} stands for {name} itself)"),
        ("site: s\nseeds: [s.example/x]\nlayers: {a: {}}\n", "seeds[0].url: 's.example/x' is not a URL (write https://s.example/x)"),
        ("site: s\nseeds: [ftp://s.example/]\nlayers: {a: {}}\n", "'ftp://s.example/' is not a URL"),
        ("site: s\nseeds: ['http://s.example/a b']\nlayers: {a: {}}\n", "there is white space in this URL (write %20)"),
        ("site: s\nseeds: {url: http://s.example/, since: 1h}\nlayers: {a: {}}\n", "seeds.since: since is only for sitemaps and feeds"),
        ("site: s\nseeds: ['http://s.example/[1-10]', 'http://s.example/[1-999999999999]']\nlayers: {a: {}}\n", "seeds[1]: up to here the seeds are 1,000,000,000,009 URLs; at most 1,000,000 are allowed"),
        ("site: s\nlayers: {a: {}}\n", "warning: site: there are no seeds"),
        (BEGIN + "schedule: {every: 1h, overlap: reseed}\nlayers: {a: {fields: {t: h1}}}\nstore: {a: {archive: true}}\n", "warning: schedule.overlap: a is archived when a round begins: what the last round still fetches goes into the new table (write overlap: queue, or leave archive out)"),
        (BEGIN + "schedule: {every: 1h, deadline: 2h}\nlayers: {a: {}}\n", "warning: schedule.deadline: the deadline is longer than every: a round is late only after the next one was due (write a deadline of at most every)"),
        (BEGIN + "schedule: {every: 1h, deadline: 0}\nlayers: {a: {}}\n", "warning: schedule.deadline: every round would be late (write how long a round may take)"),
        (BEGIN + "schedule: {every: 10m, jitter: 11m}\nlayers: {a: {}}\n", "warning: schedule.jitter: the jitter is longer than the time from one round to the next: rounds begin less often than the schedule says (write a shorter jitter)"),
        (BEGIN + "schedule: {cron: '*/10 * * * *', jitter: 11m}\nlayers: {a: {}}\n", "warning: schedule.jitter: the jitter is longer"),
        # ways
        (BEGIN + "layers: {a: {}, b: {match: ^/b}, c: {}}\n", "warning: layers.b: nothing leads to layer b"),
        (BEGIN + "layers: {a: {fields: {t: h1}}}\nstore: {a: {gone: true}}\n", "warning: store.a.gone: no row is ever gone: pages of this layer are fetched once, and never again (write seen: round in the layer, and in those that lead to it)"),
        (BEGIN + "layers: {a: {follow: {css: a, to: b}}, b: {seen: round, fields: {t: h1}}}\nstore: {b: {gone: true}}\n", "warning: store.b.gone: no round can tell which rows are gone: pages that lead here may be fetched once and never again (a) (write seen: round there, too, or for the whole site)"),
        (BEGIN + "layers: {a: {match: ^/, follow: {css: a, to: b, pass: t}, fields: {t: h1}}, b: {fields: {x: {from: parent.tt}}}}\n", "warning: layers.b.fields.x.from: nothing passes tt to this layer (did you mean t?)"),
        # store
        (layer("") + "store: {aa: {}}\n", "store.aa: there is no layer aa (did you mean a?)"),
        (layer("") + "store: {b: {}}\n", "store.b: this layer has no fields, so there is nothing to store"),
        (layer("") + "store: {a: {key: [tt]}}\n", "store.a.key[0]: there is no field tt (did you mean t?)"),
        (layer("") + "store: {a: {key: []}}\n", "store.a.key: nothing tells records apart"),
        (layer("") + "store: {a: {add: [fetchd_at]}}\n", "store.a.add[0]: there is no column fetchd_at to add (did you mean fetched_at?)"),
        (layer("save: true") + "store: {a: {add: [file]}}\n", "store.a.add[0]: pages of this layer are kept in no files (write save: files in the layer)"),
        (layer("") + "store: {a: {columns: {x: y}}}\n", "store.a.columns.x: there is no field x"),
        (layer("") + "store: {a: {columns: {t: 'a b'}}}\n", "'a b' cannot be the name of a column"),
        (layer("") + "store: {a: {columns: {t: u}}}\n", "t and u have the same column u"),
        (layer("") + "store: {a: {children: {t: {}}}}\n", "store.a.children.t: there is no list of records t"),
        (layer("") + "store: {a: {table: 'a; drop'}}\n", "'a; drop' cannot be the name of a table"),
        (layer("records: .x") + "store: {a: {}}\n", "all records of a page have the same key"),
        (BEGIN + "layers: {a: {fields: {r: {each: i, fields: {x: b}}}}}\nstore: {a: {key: r}}\n", "r is a list of records and tells nothing apart"),
        (BEGIN + "layers: {a: {fields: {r: {each: i, fields: {x: b}}}}}\nstore: {a: {children: {r: {key: y}}}}\n", "store.a.children.r.key: the records have no field y"),
        (BEGIN + "layers: {a: {fields: {r: h1}, match: ^/}, b: {match: ^/b, fields: {r: h1}}}\nstore: {a: {table: x}, b: {table: X}}\n", "layer a writes to table X, too"),
        (
            BEGIN + "layers: {a: {handler: 'm:f'}}\nstore: {a: {archive: true}}\n",
            "a table is put aside only if its columns are declared",
        ),
        (BEGIN + "layers: {a: {handler: 'm:f', require: [b]}}\nstore: {a: {types: {c: text}}}\n", "there is no field b"),
        (BEGIN + "layers: {a: {handler: 'm:f'}}\nstore: {a: {types: {c: text}, key: [d]}}\n", "there is no field d"),
        (BEGIN + "layers: {a: {fields: {b: h1}}}\nstore: {a: {types: {b: text}}}\n", "types is for layers that a function"),
        (BEGIN + "layers: {a: {handler: 'm:f'}}\nstore: {a: {types: {c: txt}}}\n", "did you mean text?"),
        (layer("records: li, page: {n: b}, follow: [{url: '/{t}', to: a, pages: 0}]"), "layers.a.follow[0]: t is a field of each record, and this rule, which has pages, is for the page as a whole (write t under page: of the layer, where values of the whole page stand)"),
        (layer("records: li, page: {n: b}, follow: [{css: a, to: a, pages: 0, when: m}]"), "layers.a.follow[0].when: there is no field m"),
        (layer("page: {n: b}"), "layers.a.page: page is for layers with records; this page is one record (write it in fields)"),
        (layer("records: li, page: {t: b}"), "layers.a.page.t: t is a field of the records, too (rename one of them)"),
        (layer("records: li, page: {n: b}").replace("u: h2", "u: {from: page.m}"), "layers.a.fields.u.from: there is no m in page of this layer (there is only n)"),
        (layer("format: html") + "store: {a: {columns: {t: gossamer_key}}}\n", "store.a: table s_a: gossamer_key is a name of the store's own (rename the column)"),
        (layer("").replace("t: h1", "valid_from: h1") + "store: {a: {history: true}}\n", "store.a: table s_a: the column valid_from is the store's own and datetime (rename yours)"),
        (layer("").replace("t: h1", "t: {css: h1, type: float}") + "store: {a: {key: [t]}}\n", "store.a: table s_a: t is float and cannot be a key (choose other columns)"),
        (layer("").replace("t: h1", "round: h1") + "store: {a: {add: [round]}}\n", "store.a.add[0]: a field is called round, too, and its values would stand in this column (rename the field, or leave this out)"),
        (layer("request: {json: {q: 1}}") + "store: {a: {}}\n", "warning: store.a.key: pages of this layer are requested with a body; of those with the same URL only the last record stays (name fields in key that tell them apart)"),
    ],
)  # fmt: skip
def test_each_mistake_is_told_with_its_place(text: str, said: str) -> None:
    lines = told(text)
    assert any(said in line for line in lines), lines
    assert all(line.startswith("f.yaml:") for line in lines)


def test_what_has_the_wrong_form_hides_no_other_mistake() -> None:
    lines = told(
        "seed: [x]\nseeds: [12, {url: http://s.example/, layer: lits}, {url: http://s.example/, layr: a}]\n"
        "schedule: {evry: 1h, cron: '61 * * * *'}\nlayers:\n"
        "  list:\n    match: '^/('\n    fields: {t: {css: 'a[', typ: int}, u: {css: a, xpath: b}, v: 5, w: {regex: '(a'}}\n"
        "    require: [t, u, v, w]\n    follow: [{to: post}, {css: a, to: pots}, {css: 'b[', pages: -1}]\n"
        "  post: 7\nstore: {list: {key: [t], ad: 1}}\n"
    )
    assert [line.split(": ")[1] for line in lines] == [
        "seed", "site", "seeds[0]", "seeds[1].layer", "seeds[2].layr", "schedule.evry", "schedule.cron", "layers.list.match",
        "layers.list.fields.t.css", "layers.list.fields.t.typ", "layers.list.fields.u", "layers.list.fields.v", "layers.list.fields.w.regex",
        "layers.list.follow[0]", "layers.list.follow[1].to", "layers.list.follow[2].css", "layers.list.follow[2].pages", "layers.post",
        "store.list.ad",
    ]  # fmt: skip


ROAMS = "these links may lead to any host, and links there to further hosts: nothing keeps the crawl on the site (write hosts: own to stay on the hosts of the seeds, or hosts: any if you mean it)"


@pytest.mark.parametrize(
    ("layers", "where"),
    [
        ("a: {follow: [{css: a, to: a}]}", ["layers.a.follow[0]"]),
        ("a: {match: ^/a, follow: [{css: a, to: a, match: 'html$'}]}", ["layers.a.follow[0]"]),
        ("a: {fields: {t: {css: a, all: true, attr: href}}, follow: [{url: '{t}', to: a}]}", ["layers.a.follow[0]"]),
        # From one to the other and back; a comment has no links.
        (
            "a: {follow: [{css: a, to: b}]}, b: {follow: [{css: i, to: c}, {css: a, to: a}]}, c: {}",
            ["layers.a.follow[0]", "layers.b.follow[1]"],
        ),
        # One step away is as far as it goes, or back to own hosts.
        ("a: {follow: [{css: a, to: b}]}, b: {}", []),
        ("a: {match: ^/a, follow: [{css: a, to: b}]}, b: {match: ^/b, follow: [a]}", []),
        ("a: {follow: [{css: a, to: a, hosts: own}]}", []),
        ("a: {follow: [{css: a, to: a, hosts: any}]}", []),
        ("a: {follow: [{css: a.next, to: a, pages: 0}]}", []),
        ("a: {follow: [{css: a, to: a, match: '^https?://t.example/'}]}", []),
        (r"a: {follow: [{css: a, to: a, match: '//s\.example/'}]}", []),
        ("a: {fields: {t: h1}, follow: [{url: '/x/{t}', to: a}]}", []),
        ("a: {match: ^/a, follow: [a]}", []),
        ("a: {follow: [{css: a, to: a}]}}\nlimits: {depth: 3", []),
    ],
)
def test_links_that_may_lead_from_host_to_host_without_end(layers: str, where: list[str]) -> None:
    lines = told(f"site: s\nseeds: http://www.s.example/\nlayers: {{{layers}}}\n")
    assert [line.partition("warning: ")[2] for line in lines] == [f"{place}: {ROAMS}" for place in where]


def test_hosts_own_says_nothing_where_seeds_name_no_host() -> None:
    (line,) = told("site: s\nseeds: [{tasks: k}]\nlayers: {a: {follow: [{css: a, to: a, hosts: own}]}}\n")
    assert "warning: layers.a.follow[0].hosts: the seeds name no host, so these links may lead anywhere" in line


def test_what_fits_together_has_nothing_to_be_told() -> None:
    assert (
        told(
            "site: s\nengine: scrapy\nseeds: ['http://s.example/{f}/[1-3]', {tasks: q}]\nparams: {f: [x, y]}\n"
            "proxies: {vip: {urls: ['http://${USER}:${PASSWORD}@p:1']}}\nrequest: {proxy: vip, auth: ['${A}', '${B}']}\n"
            "layers:\n"
            "  a: {match: '^/(?P<f>\\w)/', examples: ['http://s.example/x/1'], request: {render: true},\n"
            "      fields: {t: h1, u: {from: fields.t, regex: x}, h: {from: headers.etag}}, require: [[t, u]],\n"
            "      follow: [{css: a.next, to: a, pages: 0}, {url: '/{t}/{f}', to: b, pass: [t, f]}, {css: a, to: c, method: POST, body: x}]}\n"
            "  b: {format: json, records: {jmespath: items}, fields: {id: {jmespath: id}, parent: {from: parent.t}}}\n"
            "  c: {handler: 'm:f'}\n"
            "store: {a: {add: [fetched_at]}, b: {key: [id]}, c: {existing: true, key: [anything]}}\n"
        )
        == []
    )


def test_a_match_that_ends_earlier_is_another_one() -> None:
    """The front page of a shop, and all that is below it."""
    assert told(BEGIN + "layers: {a: {match: ^/$, follow: a}, b: {match: ^/, fields: {t: h1}}}\n") == []


def test_a_table_of_many_sites_is_not_put_aside_by_each_of_them() -> None:
    text = "site: 's-{k}'\nparams: {k: [x, y]}\nseeds: 'http://{k}.example/'\nlayers: {a: {fields: {t: h1}}}\nstore: {a: {archive: true, table: all}}\n"
    (line,) = told(text)
    assert line.startswith(
        "f.yaml:5:22: warning: store.a.archive: all sites of this file write to this table, and a new round of"
    )
    assert told(text.replace("table: all", "table: 'all_{k}'")) == []
    assert told(text.replace(", table: all", "")) == []
    assert told(text.replace("[x, y]", "[x]")) == []


def test_what_is_not_installed_here_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "site: s\nengine: scrapy\nseeds: http://s.example/\ndatabase: mysql://h/d\nlayers: {a: {request: {render: true}}}\n"
    assert told(text) == []
    monkeypatch.setattr(requirements, "installed", lambda module: False)
    assert told(text) == [
        "f.yaml:4:11: warning: database: pymysql is not installed here (where it is crawled: pip install 'gossamer[mysql]')",
        "f.yaml:5:32: warning: layers.a.request.render: scrapy-playwright is not installed here (where it is crawled: pip install 'gossamer[render]')",
    ]
    assert told(text.replace("mysql://h/d", "${DATABASE}").replace("true", "false")) == []


def test_the_databases_are_those_of_the_store() -> None:
    assert {name: (module, extra) for name, (_, _, module, extra) in url._SCHEMES.items()} == requirements.DRIVERS


def test_places_of_what_one_thing_stands_for_are_its_own() -> None:
    (line,) = told("site: s\nseeds: 's.example'\nlayers: {a: {}}\n")
    assert line.startswith("f.yaml:2:8: seeds.url: 's.example' is not a URL")


def test_a_thousand_patterns_are_no_trouble() -> None:
    many = "".join(f"  l{n}: {{match: '^/l{n}/(?P<x>\\d+)', follow: a}}\n" for n in range(300))
    assert told(f"{BEGIN}layers:\n{many}") == []


def test_hooks_are_found_with_their_places_and_imported_only_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site_hooks_here.py").write_text("def good(): ...\nlevel = 5\n")
    (tmp_path / "site_hooks_broken.py").write_text("raise RuntimeError('no')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    text = (
        BEGIN + "hooks: {after_round: 'site_hooks_here:good'}\nlayers:\n"
        "  a: {hooks: {on_fail: 'site_hooks_here:goood'}, handler: 'site_hooks_broken:f'}\n"
        "  b: {match: ^/b, hooks: {on_fail: 'site_hooks_here:level', before_store: 'site_hooks_absent:f'}}\n"
    )
    found = survey_text(text, "f.yaml")
    assert "site_hooks_here" not in sys.modules
    (loaded,) = found.sites
    assert hooks_of(loaded.site)["site_hooks_here:good"] == ["hooks.after_round"]
    assert [str(problem) for problem in check_hooks(loaded.site, loaded.spot, Grant(folder=tmp_path))] == [
        "f.yaml:5:24: layers.a.hooks.on_fail: site_hooks_here has no function goood (did you mean good?)",
        "f.yaml:5:59: layers.a.handler: site_hooks_broken cannot be imported: RuntimeError: no (is it installed, or in the working directory?)",
        "f.yaml:6:75: layers.b.hooks.before_store: site_hooks_absent cannot be imported: ModuleNotFoundError: No module named 'site_hooks_absent' (is it installed, or in the working directory?)",
        "f.yaml:6:36: layers.b.hooks.on_fail: site_hooks_here has no function level (there is only good)",
    ]


def test_warnings_do_not_keep_a_site_from_being_used() -> None:
    assert load_text("site: s\nlayers: {a: {}}\n")[0].site == "s"


@pytest.mark.parametrize(("complains", "said"), [(expressions.xpath, "NULL bytes"), (expressions.css, "expected")])
def test_what_else_is_wrong_is_not_said_of_a_selector(
    complains: Callable[[str], expressions.Complaint], said: str
) -> None:
    """Files are looked at in full when something is wrong with them, while that error is being handled."""
    try:
        raise LookupError("something else")
    except LookupError:
        complaint = complains("\x00[one of this test")
    assert complaint is not None
    assert said in complaint[0]
    assert "something else" not in complaint[0]


def test_faults_below_a_list_of_which_another_entry_is_wrong_are_told() -> None:
    said = told(layer("require: [null, [null, u]], encoding: utf-9"))
    assert [one.partition(": ")[2].partition(":")[0] for one in said] == [
        "layers.a.require[0]",
        "layers.a.require[1][0]",
        "layers.a.encoding",
    ]
