import json
import threading
import time
from collections.abc import Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from stepline.adapters.oidc import LEEWAY_S, OidcIdentity
from stepline.bootstrap.authentication import identity_of
from stepline.errors import AuthError, DependencyError
from stepline.local.stage.issuer import signing as issuer
from stepline.model.ids import USER_MAX_CHARS
from stepline.ports.channel import ROLES, Principal
from stepline.settings import Settings
from tests.support.issuer import REMOVED, Issuer, running_issuer


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("issuer")


@pytest.fixture(scope="module")
def url(home: Path) -> Iterator[str]:
    with running_issuer(home) as running:
        yield running.url


def identity(url: str, **fields: Any) -> OidcIdentity:
    wiring: dict[str, Any] = {
        "issuer": url,
        "audience": issuer.AUDIENCE,
        "jwks_url": "",
        "tenant_claim": "tenant",
        "project_claim": "project",
        "role_claim": "groups",
        "admins": {"docs-leads": "project_admin", "owners": "tenant_admin"},
    }
    return OidcIdentity(**{**wiring, **fields})


issuer_of = cache(Issuer)  # each issuer reads its key once


def token(home: Path, url: str, *, kid: str = "local", **changed: Any) -> str:
    """Return a token of the loopback issuer, with changed claims or signature."""
    return issuer_of(home, url).token(header={"kid": kid}, **changed)


def refusal(url: str, text: str, **fields: Any) -> str:
    with pytest.raises(AuthError) as caught:
        identity(url, **fields).verify(text)
    return caught.value.reason


def _part(content: dict[str, Any]) -> str:
    return jwt.utils.base64url_encode(json.dumps(content).encode()).decode()


def test_a_minted_token_names_its_tenant_its_project_and_its_user(home: Path, url: str) -> None:
    before = int(time.time())
    principal = identity(url).verify(
        issuer.sign_token("ada", issuer_url=url, tenant="acme", project="docs", home=home)
    )
    assert (principal.tenant, principal.project, principal.user) == ("acme", "docs", "ada")
    assert principal.expires_at >= before + 3600


def test_the_claims_of_tenant_and_project_are_the_deployments_choice(home: Path, url: str) -> None:
    text = token(home, url, org="other", team="red")
    principal = identity(url, tenant_claim="org", project_claim="team").verify(text)
    assert (principal.tenant, principal.project) == ("other", "red")


def test_a_given_key_set_needs_no_discovery(home: Path, url: str) -> None:
    text = token(home, "https://elsewhere.example", sub="bob")
    found = identity("https://elsewhere.example", jwks_url=f"{url}/jwks.json").verify(text)
    assert isinstance(found, Principal)
    assert found.user == "bob"


@pytest.mark.parametrize(
    "claims",
    [
        {"sub": 7},
        {"sub": "a\nb"},
        {"sub": "a" * (USER_MAX_CHARS + 1)},
        {"sub": "ü"},
        {"exp": "soon"},
        {"project": REMOVED},
        {"tenant": ""},
        {"tenant": "acme/docs"},
        {"tenant": "-acme"},
        {"tenant": ["acme"]},
        {"tenant": {"id": "acme"}},
        {"project": "p" * 65},
        {"project": "docs\n"},
    ],
    ids=str,
)
def test_a_signed_token_with_unusable_claims_is_unauthorized(
    home: Path, url: str, claims: dict[str, Any]
) -> None:
    assert refusal(url, token(home, url, **claims)) == "unauthorized"


def test_a_users_name_may_be_any_printable_ascii_up_to_its_limit(home: Path, url: str) -> None:
    for sub in ("auth0|5f7c", "a" * USER_MAX_CHARS, 'Ada "the" Count#ess'):
        assert identity(url).verify(token(home, url, sub=sub)).user == sub


@pytest.mark.parametrize(
    ("groups", "role"),
    [
        (REMOVED, "user"),
        ([], "user"),
        (["readers"], "user"),
        (["docs-leads"], "project_admin"),
        ("docs-leads", "project_admin"),
        (["owners"], "tenant_admin"),
        (["owners", "readers", "docs-leads"], "tenant_admin"),
        (["docs-leads", "owners"], "tenant_admin"),
        ("docs-leads owners", "user"),
        ("OWNERS", "user"),
        (["project_admin", "tenant_admin"], "user"),
        ([["owners"], {"owners": True}, 1, None], "user"),
        ({"owners": True}, "user"),
        (True, "user"),
        (None, "user"),
        (7, "user"),
    ],
    ids=str,
)
def test_the_highest_role_of_the_claim_applies_and_others_mean_user(
    home: Path, url: str, groups: Any, role: str
) -> None:
    found = identity(url).verify(token(home, url, groups=groups, role="tenant_admin", admin=True))
    assert (found.role, found.is_admin) == (role, role != "user")


def test_the_issuer_of_the_local_stage_makes_admins(home: Path, url: str) -> None:
    verifier = identity_of(Settings(oidc_issuer=url))
    for role in ROLES:
        assert verifier.verify(issuer.sign_token("ada", issuer_url=url, role=role, home=home)).role == role


def test_a_value_in_both_admin_lists_means_the_higher_role(home: Path, url: str) -> None:
    settings = Settings(oidc_issuer=url, role_claim="g", project_admins=("x",), tenant_admins=("x",))
    assert identity_of(settings).verify(token(home, url, g=["x"])).role == "tenant_admin"


def test_an_expired_token_has_its_own_code(home: Path, url: str) -> None:
    assert refusal(url, token(home, url, exp=int(time.time()) - LEEWAY_S - 1)) == "auth_expired"


def test_the_issuers_clock_may_be_a_little_ahead_but_nothing_outlives_its_expiry(
    home: Path, url: str
) -> None:
    soon = int(time.time()) + LEEWAY_S // 2
    assert identity(url).verify(token(home, url, nbf=soon, iat=soon)).user == "ada"
    assert refusal(url, token(home, url, nbf=soon + 3600)) == "unauthorized"
    assert refusal(url, token(home, url, exp=int(time.time()))) == "auth_expired"


@pytest.mark.parametrize("text", ["", "a", "a.b.c", "a.b.c.d", "\0", "eyJhbGciOiJSUzI1NiJ9..", "ü.ü.ü"])
def test_a_text_that_is_not_a_token_is_unauthorized(url: str, text: str) -> None:
    assert refusal(url, text) == "unauthorized"


def test_no_token_is_accepted_without_an_issuer(home: Path, url: str) -> None:
    assert refusal(url, token(home, url), issuer="") == "unauthorized"


# --- an issuer that fails


@pytest.fixture
def broken() -> Iterator[tuple[str, dict[str, bytes]]]:
    """Serve the pages that the test sets."""
    pages: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = pages.get(self.path)
            word, _, target = (body or b"").partition(b" ")
            moved = word == b"LOCATION"
            self.send_response(302 if moved else 200 if body is not None else 503)
            if moved:
                self.send_header("Location", target.decode())
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *args: Any) -> None:
            """Keep the test's output clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", pages
    server.shutdown()
    thread.join()
    server.server_close()


DISCOVERY = "/.well-known/openid-configuration"


@pytest.mark.parametrize(
    "pages",
    [
        {},
        {DISCOVERY: b"<html>"},
        {DISCOVERY: b"{}"},
        {DISCOVERY: b"[]"},
        {DISCOVERY: b"JWKS"},
        {DISCOVERY: b"JWKS", "/jwks.json": b"<html>"},
        {DISCOVERY: b"JWKS", "/jwks.json": b"\xff"},
        {DISCOVERY: b"JWKS", "/jwks.json": b"[]"},
        {DISCOVERY: b"JWKS", "/jwks.json": b'{"keys": []}'},
        {
            DISCOVERY: b"JWKS",
            "/jwks.json": b'{"keys": [{"kty": "oct", "k": "c2VjcmV0", "use": "enc", "kid": "local"}]}',
        },
    ],
    ids=str,
)
def test_an_invalid_answer_of_the_issuer_is_not_a_failure_of_the_token(
    home: Path, url: str, broken: tuple[str, dict[str, bytes]], pages: dict[str, bytes]
) -> None:
    there, served = broken
    jwks = json.dumps({"issuer": there, "jwks_uri": f"{there}/jwks.json"}).encode()
    served.update({path: jwks if body == b"JWKS" else body for path, body in pages.items()})
    with pytest.raises(DependencyError) as caught:
        identity(there).verify(token(home, there))
    assert caught.value.reason == "issuer_unreachable"


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://evil.example"},
        {"issuer": "THERE/"},
        {"issuer": None},
        {"jwks_uri": "http://issuer.example/jwks.json"},
        {"jwks_uri": "http://127.0.0.1@issuer.example/jwks.json"},
        {"jwks_uri": "file:///etc/passwd"},
        {"jwks_uri": "http://["},
        {"jwks_uri": ["THERE/jwks.json"]},
    ],
    ids=str,
)
def test_metadata_of_another_issuer_or_with_foreign_urls_is_not_followed(
    home: Path, url: str, broken: tuple[str, dict[str, bytes]], metadata: dict[str, Any]
) -> None:
    there, served = broken
    text = json.dumps({**issuer.discovery(there), **metadata}).replace("THERE", there)
    served.update(
        {DISCOVERY: text.encode(), "/jwks.json": json.dumps(issuer.key_set(issuer.load_key(home))).encode()}
    )
    with pytest.raises(DependencyError) as caught:
        identity(there).verify(token(home, there))
    assert caught.value.reason == "issuer_unreachable"


@pytest.mark.parametrize("address", ["http://issuer.example/jwks.json", "file:///etc/passwd", "jwks.json"])
def test_a_given_key_set_is_fetched_as_safely_as_a_discovered_one(home: Path, url: str, address: str) -> None:
    with pytest.raises(DependencyError):
        identity(url, jwks_url=address).verify(token(home, url))


def test_a_redirect_is_not_followed(home: Path, url: str, broken: tuple[str, dict[str, bytes]]) -> None:
    there, served = broken
    served[DISCOVERY] = f"LOCATION {url}{DISCOVERY}".encode()
    with pytest.raises(DependencyError):
        identity(there).verify(token(home, there))


def test_a_key_that_is_too_short_is_refused(home: Path, broken: tuple[str, dict[str, bytes]]) -> None:
    there, served = broken
    short = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    served[DISCOVERY] = json.dumps(issuer.discovery(there)).encode()
    served["/jwks.json"] = json.dumps(issuer.key_set(short)).encode()
    with pytest.warns(jwt.InsecureKeyLengthWarning):
        text = token(home, there, key=short)
    assert refusal(there, text) == "unauthorized"


def test_an_unsupported_algorithm_of_the_issuer_is_refused(
    home: Path, broken: tuple[str, dict[str, bytes]]
) -> None:
    there, served = broken
    keys = issuer.key_set(issuer.load_key(home))
    keys["keys"][0]["alg"] = "RS512"
    served.update(
        {DISCOVERY: json.dumps(issuer.discovery(there)).encode(), "/jwks.json": json.dumps(keys).encode()}
    )
    for algorithm in ("RS512", "RS256"):
        assert refusal(there, token(home, there, algorithm=algorithm)) == "unauthorized"


def test_a_visibly_invalid_token_triggers_no_fetch(broken: tuple[str, dict[str, bytes]], home: Path) -> None:
    there, _ = broken  # every request to it fails with a DependencyError
    head = _part({"alg": "HS256", "kid": "local"})
    for text in ("a.b.c", f"{head}.{head}.{head}", token(home, there, kid="")):
        assert refusal(there, text) == "unauthorized"


def test_an_issuer_that_recovers_is_queried_again(home: Path, broken: tuple[str, dict[str, bytes]]) -> None:
    there, served = broken
    verifier, text = identity(there), token(home, there)
    with pytest.raises(DependencyError):
        verifier.verify(text)
    served[DISCOVERY] = json.dumps(issuer.discovery(there)).encode()
    served["/jwks.json"] = json.dumps(issuer.key_set(issuer.load_key(home))).encode()
    assert verifier.verify(text).user == "ada"


def test_keys_that_are_known_outlast_an_outage_of_the_issuer(
    home: Path, broken: tuple[str, dict[str, bytes]]
) -> None:
    there, served = broken
    served[DISCOVERY] = json.dumps(issuer.discovery(there)).encode()
    served["/jwks.json"] = json.dumps(issuer.key_set(issuer.load_key(home))).encode()
    verifier = identity(there)
    verifier.verify(token(home, there))
    served.clear()
    assert verifier.verify(token(home, there, sub="bob")).user == "bob"


def test_an_issuer_without_a_server_is_unreachable(home: Path) -> None:
    with pytest.raises(DependencyError):
        identity("http://127.0.0.1:9").verify(token(home, "http://127.0.0.1:9"))


@pytest.mark.parametrize(
    "address",
    ["http://issuer.example", "file:///etc/passwd", "ftp://127.0.0.1", "issuer", "http://localhost.example"],
)
def test_a_remote_issuer_is_only_queried_over_https(home: Path, address: str) -> None:
    with pytest.raises(DependencyError):
        identity(address).verify(token(home, address))


@pytest.mark.parametrize(
    ("claims", "client"),
    [
        ({}, ""),
        ({"azp": "desk"}, "desk"),
        ({"azp": "page", "client_id": "desk"}, "desk"),
        ({"azp": ["desk"]}, ""),
        ({"client_id": "desk\n"}, ""),
        ({"client_id": ""}, ""),
    ],
)
def test_a_principal_has_the_application_that_its_token_names(
    home: Path, url: str, claims: dict[str, Any], client: str
) -> None:
    assert identity(url).verify(token(home, url, **claims)).client == client
