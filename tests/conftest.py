"""What all tests share: the servers, and the rule that in CI nothing is skipped."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says more of the machine than of what is tested.
settings.register_profile("patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

# A shell that starts the tests in the background has them ignore Ctrl-C, and so would every process they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# To read the system's authorities takes 20 ms of CPU, for every connection to MariaDB and every process that imports aiohttp. No test asks
# them.
os.environ["SSL_CERT_FILE"] = os.devnull

pytest_plugins = ["gossamer.testing.plugin", "tests.support.command_fixtures", "tests.support.site_fixtures"]


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    # A skip in CI means that something was not tested and nobody noticed. An expected failure did run.
    if os.environ.get("CI") == "true" and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} was skipped, and CI=true allows no skip: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    # Every process collects all tests, which stay until the end: looking for garbage among them, now and at every collection from
    # then on, costs a sixth of this time and half a second each time.
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
