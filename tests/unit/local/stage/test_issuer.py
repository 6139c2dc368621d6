import json
import stat
import urllib.error
import urllib.request

import jwt
import pytest

from stepline.local.stage.issuer import signing as issuer
from tests.support.issuer import running_issuer


@pytest.fixture
def url(tmp_path):
    with running_issuer(tmp_path) as running:
        yield running.url


def read(url):
    with urllib.request.urlopen(url, timeout=60) as response:
        return json.load(response)


def verify(token, url):
    keys = jwt.PyJWKSet.from_dict(read(read(f"{url}/.well-known/openid-configuration")["jwks_uri"]))
    key = keys[jwt.get_unverified_header(token)["kid"]]
    return jwt.decode(token, key, algorithms=["RS256"], audience=issuer.AUDIENCE, issuer=url)


def test_a_minted_token_verifies_by_discovery_and_names_its_user(url, tmp_path):
    claims = verify(
        issuer.sign_token("ann", issuer_url=url, tenant="acme", project="docs", home=tmp_path), url
    )
    assert (claims["sub"], claims["tenant"], claims["project"]) == ("ann", "acme", "docs")


def test_a_token_expires(url, tmp_path):
    token = issuer.sign_token("ann", issuer_url=url, ttl_s=-1, home=tmp_path)
    with pytest.raises(jwt.ExpiredSignatureError):
        verify(token, url)


def test_a_token_of_another_key_does_not_verify(url, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(jwt.InvalidSignatureError):
        verify(issuer.sign_token("mallory", issuer_url=url, home=other), url)


def test_the_key_survives_a_restart_and_only_its_owner_may_read_it(tmp_path):
    assert issuer.load_key(tmp_path).private_numbers() == issuer.load_key(tmp_path).private_numbers()
    assert stat.S_IMODE((tmp_path / "issuer.pem").stat().st_mode) == 0o600


def test_the_published_keys_hold_no_private_part(url):
    (key,) = read(f"{url}/jwks.json")["keys"]
    assert {"kty", "n", "e", "kid"} <= set(key)
    assert not {"d", "p", "q"} & set(key)


def test_any_other_page_is_not_found(url):
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"{url}/token", timeout=60)
    assert caught.value.code == 404
    caught.value.close()
