"""Which addresses are public, and who may connect to the others."""

from __future__ import annotations

import pytest

from gossamer.model.network import NetworkGuard, guard_of, leads_inside, literal, looks_private

STRICT = NetworkGuard(False)
PUBLIC = ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8"]
PRIVATE = [
    "127.0.0.1", "127.9.9.9", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.1.1", "198.18.0.1",
    "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0", "fd00::1", "fc00::1", "ff02::1", "::ffff:127.0.0.1",
    "::ffff:7f00:1", "::127.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b:1::10.0.0.1", "2002:7f00:1::", "2001:0:7f00:1::1",
    "64:ff9b:1:a00:1:100:808:808", "fec0::1", "::ffff:0:127.0.0.1", "5f00::1", "2001:470:1::5efe:7f00:1", "2001:470:1::200:5efe:808:808",
]  # fmt: skip
METADATA = [
    "169.254.169.254", "169.254.170.2", "168.63.129.16", "100.100.100.200", "fd00:ec2::254", "::ffff:169.254.169.254",
    "64:ff9b::169.254.169.254", "2002:a9fe:a9fe::", "fd20:ce::254", "192.0.0.192",
    "64:ff9b:1::169.254.169.254", "::ffff:0:169.254.169.254", "2001:470:1::5efe:a9fe:a9fe",
]  # fmt: skip


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_for_everybody(address: str) -> None:
    assert STRICT.refusal("h", address) == ""


@pytest.mark.parametrize("address", PRIVATE)
def test_a_private_address_is_for_those_who_may(address: str) -> None:
    assert "private_addresses: true" in STRICT.refusal("h.example", address)
    assert NetworkGuard(True).refusal("h.example", address) == ""


@pytest.mark.parametrize("address", METADATA)
@pytest.mark.parametrize("guard", [STRICT, NetworkGuard(True), guard_of("169.254.0.0/16,::/0", True, ())])
def test_a_metadata_service_is_for_nobody(address: str, guard: NetworkGuard) -> None:
    assert "metadata" in guard.refusal("h.example", address)


def test_networks_are_allowed_by_name() -> None:
    guard = guard_of("10.1.0.0/16, fd12::/16", None, ["shop.example"])
    assert (
        guard.refusal("h", "10.1.2.3") == guard.refusal("h", "fd12::1") == guard.refusal("h", "::ffff:10.1.2.3") == ""
    )
    assert guard.refusal("h", "10.2.2.3") != ""


@pytest.mark.parametrize(
    "host", ["127.1", "0x7f.1", "0x7f000001", "2130706433", "0177.0.0.1", "017700000001", "127.0.0.1."]
)
def test_every_form_of_an_address_is_that_address(host: str) -> None:
    assert str(literal(host)) == "127.0.0.1"
    assert STRICT.refusal_by_name(host) != ""


@pytest.mark.parametrize("host", ["localhost", "a.localhost", "intranet", "printer.local", "db.internal", "[::1]", "0"])
def test_names_that_only_a_local_network_has_look_private(host: str) -> None:
    assert looks_private(host)
    assert leads_inside(f"http://{host}:8080/x")
    assert STRICT.refusal_by_name(host.strip("[]")) != ""


@pytest.mark.parametrize(
    "host", ["shop.example", "local.example", "8.8.8.8", "localhost.example.com", "[2606:4700::1111]"]
)
def test_others_do_not(host: str) -> None:
    assert not leads_inside(f"http://{host}/")


@pytest.mark.parametrize("host", ["metadata.google.internal", "metadata", "169.254.169.254", "2852039166"])
def test_metadata_services_are_known_by_name_too(host: str) -> None:
    assert "metadata" in NetworkGuard(True).refusal_by_name(host)


def test_who_may_connect_to_private_addresses() -> None:
    assert guard_of("auto", None, ["127.0.0.1:8000", "localhost:80", "[::1]:8000"]).private
    assert not guard_of("auto", None, ["127.0.0.1:8000", "shop.example"]).private
    assert not guard_of("auto", None, []).private
    assert not guard_of("auto", False, ["127.0.0.1"]).private
    assert guard_of("auto", True, ["shop.example"]).private
    assert guard_of("always", False, ["shop.example"]).private
    assert not guard_of("never", True, ["127.0.0.1"]).private
