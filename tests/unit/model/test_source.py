from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.model.source import host_of, normalise_url


# A port or a host lost its last characters, and distinct sites became one.
@pytest.mark.parametrize(
    "url",
    [
        "http://example.com:8043",
        "http://example.com:8080",
        "http://s3:8000",
        "http://10.0.0.8",
        "http://localhost:3000",
        "https://example.com:80",
        "http://example.com:443",
        "https://host80:8443/a80",
        "http://[2001:db8::80]:8080/a",
    ],
)
def test_a_custom_port_is_kept_in_a_normalised_url(url):
    assert normalise_url(url) == url


@pytest.mark.parametrize(
    ("url", "normal"),
    [
        ("HTTP://Example.COM:80/A/", "http://example.com/A"),
        ("https://example.com:443/?b=2&a=1#part", "https://example.com?b=2&a=1"),
        (
            "https://e.example/a?utm_source=x&q=1&UTM_Medium=y&gclid=z&fbclid=w&Q=2",
            "https://e.example/a?q=1&Q=2",
        ),
        ("https://e.example/a?utm_source=x", "https://e.example/a"),
        ("https://e.example/a?utmost=1&gclids=2", "https://e.example/a?utmost=1&gclids=2"),
        ("https://User:Pass@E.example:443/", "https://User:Pass@e.example"),
        ("http://[2001:DB8::1]:80/", "http://[2001:db8::1]"),
        ("  https://e.example/a b ", "https://e.example/a%20b"),
        ("https://e.example/a//", "https://e.example/a"),
    ],
)
def test_equivalent_urls_are_normalised_to_one_spelling(url, normal):
    assert normalise_url(url) == normal


@pytest.mark.parametrize(
    "text",
    [
        "example.com/a",
        "s3:8000",
        "//e.example/a",
        "mailto:a@b.example",
        "file:///etc/passwd",
        "",
        "https://",
        "http://e:x/",
    ],
)
def test_a_text_that_is_not_a_web_address_is_unchanged(text):
    assert normalise_url(text) == text
    assert host_of(text) == ""


def test_http_and_https_are_two_addresses():
    assert normalise_url("http://e.example/") != normalise_url("https://e.example/")


@given(
    st.text(max_size=60)
    | st.text(alphabet="htps:/[]@?#&=.u m_gclid%\xa0\t80", max_size=60).map("http://e".__add__)
)
def test_normalising_twice_is_normalising_once(url):
    assert normalise_url(normalise_url(url)) == normalise_url(url)
