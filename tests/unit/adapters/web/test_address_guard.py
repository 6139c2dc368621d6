"""The address guard: only public addresses, in any spelling, and resolved once."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stepline.adapters.web.address_guard import ADDRESSES_MAX, AddressGuard, is_public
from stepline.errors import ToolError

PUBLIC = ("93.184.216.34", "1.1.1.1", "2606:4700:4700::1111", "2a00:1450:4001:81b::200e")
NOT_PUBLIC = {
    "loopback": ("127.0.0.1", "127.9.9.9", "::1"),
    "unspecified": ("0.0.0.0", "0.1.2.3", "::"),
    "private": ("10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "fc00::1", "fd00:ec2::254"),
    "link-local and metadata": ("169.254.169.254", "169.254.170.2", "fe80::1"),
    "clouds' own": ("168.63.129.16", "192.0.0.192", "100.100.100.200"),
    "CGNAT": ("100.64.0.1", "100.127.255.255"),
    "multicast and broadcast": ("224.0.0.1", "239.255.255.255", "255.255.255.255", "ff02::1"),
    "reserved and documentation": (
        "240.0.0.1",
        "192.0.2.1",
        "198.18.0.1",
        "2001:db8::1",
        "fec0::1",
        "3fff::1",
    ),
    "mapped": ("::ffff:127.0.0.1", "::ffff:93.184.216.34", "::ffff:0:127.0.0.1"),
    "compatible": ("::127.0.0.1", "::93.184.216.34"),
    "6to4": ("2002:7f00:1::", "2002:5db8:d822::1"),
    "NAT64": ("64:ff9b::7f00:1", "64:ff9b::5db8:d822", "64:ff9b:1::7f00:1"),
    "Teredo": ("2001:0:4136:e378:8000:63bf:80ff:fffe",),
}


def refused(url: str, guard: AddressGuard | None = None) -> str:
    """Return the code of an address that is refused before any connection."""
    guard = guard or AddressGuard(resolve=unasked)
    with pytest.raises(ToolError) as error:
        guard.pin(guard.read(url))
    return error.value.reason


def unasked(host: str, port: int) -> list[str]:
    raise AssertionError(f"{host} was resolved")


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_pinned_unchanged(address):
    guard = AddressGuard(resolve=unasked)
    host = f"[{address}]" if ":" in address else address
    assert guard.pin(guard.read(f"https://{host}/")) == (ip_address(address),)


@pytest.mark.parametrize("address", [one for group in NOT_PUBLIC.values() for one in group])
def test_a_non_public_address_is_refused_directly_and_through_a_name(address):
    host = f"[{address}]" if ":" in address else address
    assert refused(f"http://{host}/") == "address_refused"
    assert refused("http://site.example/", AddressGuard(resolve=lambda *_: [address])) == "address_refused"


@given(st.ip_addresses())
@example(IPv6Address("::ffff:1.1.1.1"))
@example(IPv4Address("100.64.0.1"))
def test_every_accepted_address_is_also_global_in_pythons_table(address):
    assert not is_public(address) or (address.is_global and not address.is_multicast)


@pytest.mark.parametrize(
    "url",
    [
        "http://2130706433/",
        "http://0177.0.0.1/",
        "http://0x7f.0.0.1/",
        "http://0x7f000001/",
        "http://127.1/",
        "http://127.0.0.01/",
        "http://1.1.1.1.1/",
        "http://a.b.0x7f/",
        "http://[::1%25lo]/",
        "http://[::ffff:127.0.0.1%25lo]/",
        "http://localhost/",
        "http://metadata/",
        "http://user@site.example/",
        "http://user:word@site.example/",
        "http://site.example\\@127.0.0.1/",
        "http://site.example:22/",
        "http://site.example:8080/",
        "http://site..example/",
        "http://site.example%2f.evil.example/",
        "http://" + "a" * 64 + ".example/",
        "http://" + "a." * 200 + "example/",
        "ftp://site.example/",
        "file:///etc/passwd",
        "gopher://site.example/",
        "//site.example/",
        "http:///",
        "http://[::1",
        "javascript:alert(1)",
        "",
    ],
)
def test_an_address_in_another_spelling_is_refused_before_it_is_resolved(url):
    assert refused(url) == "url_refused"


@pytest.mark.parametrize(
    ("spelling", "host"),
    [
        ("HTTPS://Site.Example./", "site.example"),
        ("https://b\u00fccher.example/", "xn--bcher-kva.example"),
        ("https://\uff11.1.1.1/", "1.1.1.1"),
        ("https://1\u30021\uff0e1.1/", "1.1.1.1"),
        ("https://[2606:4700:4700:0::1111]/", "2606:4700:4700::1111"),
    ],
)
def test_a_host_is_normalized(spelling, host):
    assert AddressGuard().read(spelling).host == host


def test_full_width_digits_are_read_as_numbers():
    assert refused("http://\uff11\uff12\uff17.0.0.1/") == "address_refused"


def test_one_private_address_of_several_refuses_the_name():
    mixed = AddressGuard(resolve=lambda *_: ["93.184.216.34", "10.0.0.1"])
    assert refused("http://site.example/", mixed) == "address_refused"


def test_a_name_without_an_address_is_unreachable():
    def unknown(host: str, port: int) -> list[str]:
        raise OSError("no such name")

    assert refused("http://site.example/", AddressGuard(resolve=unknown)) == "unreachable"
    assert refused("http://site.example/", AddressGuard(resolve=lambda *_: [])) == "unreachable"


def test_a_few_of_many_addresses_are_tried():
    many = AddressGuard(resolve=lambda *_: [f"93.184.216.{at}" for at in range(20)])
    assert len(many.pin(many.read("http://site.example/"))) == ADDRESSES_MAX


def test_the_sent_path_is_ascii_and_keeps_percent_encoding():
    target = AddressGuard().read("https://site.example/a%20b/\u00fc c?q=\u00e4&r=%3d#part")
    assert target.path == "/a%20b/%C3%BC%20c?q=%C3%A4&r=%3d"
    assert (target.netloc, AddressGuard().read("http://site.example:443/").netloc) == (
        "site.example",
        "site.example:443",
    )
