"""`gossamer acl`: a user of the server with the rights that Gossamer needs and no others."""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from typing import Annotated

from gossamer.cli import options, output
from gossamer.cli.options import argument, flag, option
from gossamer.errors import PolicyError
from gossamer.frontier.connection import acl as acl_rules
from gossamer.frontier.connection.url import parse
from gossamer.frontier.server import keys

app = options.Noun()
Crawls = Annotated[
    list[str] | None, option("--crawl", "NAME", "A crawl the user may use, instead of GOSSAMER_CRAWL. May be repeated.")
]
Tasks = Annotated[list[str] | None, option("--tasks", "KEY", "A key that producers push tasks to. May be repeated.")]
Lists = Annotated[list[str] | None, option("--list", "KEY", "A list that pages push to. May be repeated.")]
Seen = Annotated[
    list[str] | None, option("--seen", "NAME", "A seen filter of a plain Scrapy project. May be repeated.")
]
PasswordFile = Annotated[
    Path | None, option("--password-file", "FILE", "Take the password from this file. Without it one is made.")
]
Operator = Annotated[
    bool,
    flag(
        "--operator",
        "Also what doctor and export read: SCAN, CONFIG GET (which shows requirepass too).",
    ),
]
NoFunctions = Annotated[
    bool, flag("--no-functions", "Without the right to load functions: another user must have loaded them.")
]


@app.command()
def acl(
    name: Annotated[str, argument("USER", "Name of the user.")] = "gossamer",
    crawl: Crawls = None,
    tasks: Tasks = None,
    lists: Lists = None,
    seen: Seen = None,
    password_file: PasswordFile = None,
    operator: Operator = False,
    no_functions: NoFunctions = False,
    url: options.Url = None,
) -> None:
    """Write an ACL rule for a user of the server who can only crawl.

    A line of an ACL file: all that Gossamer needs for some crawls, and nothing else.

    The line goes to standard output, with the password's SHA-256 only; a password that was made goes to standard error.
    Add the line to the server's `aclfile` and run ACL LOAD, or replace `user` with `ACL SETUSER` and run it on every
    server. Changes nothing and connects to nothing.
    """
    settings = options.load_settings(url)
    if not re.fullmatch(r"[^\s\0]+", name):
        raise PolicyError(f"user {name!r}: a name has no blanks.")
    if password_file is not None:
        password = password_file.read_text("utf-8").rstrip("\r\n")
    else:
        password = secrets.token_urlsafe(24)
        output.write_notice(f"password of {name}: {password}")
    crawls = [keys.crawl_name(each) for each in crawl or [settings["GOSSAMER_CRAWL"]]]
    rules = acl_rules.key_rules(crawls, tasks=tasks or (), lists=lists or (), seen=seen or ())
    select = parse(settings["GOSSAMER_URL"]).db != 0
    output.write_line(
        acl_rules.user(name, password, rules, operator=operator, functions=not no_functions, select=select)
    )
