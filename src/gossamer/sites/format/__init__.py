"""The form of a site file, as data: every key, its type, its default and what it means.

The reference page, the JSON Schema and the hints for misspelt keys are made from these classes; nothing here knows how a page is
fetched. `check` checks what concerns several keys (layers that exist, patterns that compile).
"""

from gossamer.sites.format.layer import (
    Hooks,
    Identity,
    Layer,
    PageRecords,
    Rediscover,
    RequestRule,
    Revisit,
    Seen,
    Valid,
)
from gossamer.sites.format.login import LoginCheck, LoginRule, SessionEnd
from gossamer.sites.format.refresh import Condition, RefreshRule
from gossamer.sites.format.selector import (
    PLAIN_MEANINGS,
    PLAIN_STEPS,
    SELECTORS,
    Body,
    Clean,
    FieldRule,
    Follow,
    Format,
    Kind,
    Selected,
    Step,
    Taken,
    is_helper,
    stored_fields,
)
from gossamer.sites.format.site import (
    BlackoutRule,
    ChildTable,
    HostRule,
    Limits,
    Politeness,
    ProxyRule,
    Schedule,
    Seed,
    SiteSpec,
    StoreRule,
)
from gossamer.sites.format.values import NAME, SiteModel

__all__ = [
    "NAME",
    "PLAIN_MEANINGS",
    "PLAIN_STEPS",
    "SELECTORS",
    "BlackoutRule",
    "Body",
    "ChildTable",
    "Clean",
    "Condition",
    "FieldRule",
    "Follow",
    "Format",
    "Hooks",
    "HostRule",
    "Identity",
    "Kind",
    "Layer",
    "Limits",
    "LoginCheck",
    "LoginRule",
    "PageRecords",
    "Politeness",
    "ProxyRule",
    "Rediscover",
    "RefreshRule",
    "RequestRule",
    "Revisit",
    "Schedule",
    "Seed",
    "Seen",
    "Selected",
    "SessionEnd",
    "SiteModel",
    "SiteSpec",
    "Step",
    "StoreRule",
    "Taken",
    "Valid",
    "is_helper",
    "stored_fields",
]
