"""Tokens, tickets and sites that are not what they say: at the door, at the ticket endpoint, and in every message."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from lambdas import api
from lambdas.edge import runtime as edge_runtime
from stepline.adapters.oidc import LEEWAY_S
from stepline.local.stage.issuer import signing as local_issuer
from stepline.model.wire.client_message import Auth
from stepline.model.wire.event import AckFrame, AuthFrame, ErrorFrame
from stepline.ports.identity import TICKET_TTL_S
from tests.handlers.conftest import LambdaRuntime, recorded
from tests.handlers.ingress_events import (
    SITE,
    handshake,
    open_socket,
    principal_of,
    request,
    say,
    ticket_of,
    verdict,
)
from tests.security.every_message import KINDS, good
from tests.support.issuer import REMOVED, Issuer, running_issuer

Forge = Callable[[Issuer], str]
SEND: Final = {"action": "send", "conversation": "c-1", "message_id": "m1", "text": "let me in"}
FOREIGN_KEY: Final = rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    with running_issuer(tmp_path_factory.mktemp("issuer")) as found:
        yield found


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], issuer: Issuer) -> Any:
    found = LambdaRuntime(monkeypatch, capsys)
    found.wire(STEPLINE_OIDC_ISSUER=issuer.url, STEPLINE_ALLOWED_ORIGINS=SITE)
    yield found
    edge_runtime.drop()


# --- tokens that are forged, foreign, or not for us


def part(content: dict[str, Any]) -> str:
    return jwt.utils.base64url_encode(json.dumps(content).encode()).decode()


def unsigned(issuer: Issuer, **header: Any) -> str:
    return f"{part({'typ': 'JWT', 'kid': 'local', **header})}.{part(issuer.claims())}."


def signed_with_the_public_key(issuer: Issuer) -> str:
    """Return a token with a public secret: the PEM of the key that the issuer publishes."""
    pem = issuer.key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    text = f"{part({'alg': 'HS256', 'typ': 'JWT', 'kid': 'local'})}.{part(issuer.claims())}"
    hmac = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    return f"{text}.{jwt.utils.base64url_encode(hmac.sign(text.encode(), pem)).decode()}"


def with_another_body(issuer: Issuer) -> str:
    head, _, signature = issuer.token().split(".")
    return f"{head}.{part(issuer.claims(tenant='other'))}.{signature}"


def foreign(**header: Any) -> Forge:
    """Return what signs with a key of the attacker's, and says in the header where that key is to be found."""
    return lambda issuer: issuer.token(key=FOREIGN_KEY, header=header)


def claiming(**claims: Any) -> Forge:
    return lambda issuer: issuer.token(**claims)


def named(kid: Any) -> Forge:
    return lambda issuer: issuer.token(header={"kid": kid})


PUBLIC_JWK: Final = jwt.algorithms.RSAAlgorithm.to_jwk(FOREIGN_KEY.public_key(), as_dict=True)
JWKS_ADDRESS: Final = "https://evil.example/jwks.json"
NOW: Final = int(time.time())

TOKENS: Final[dict[str, Forge]] = {
    "no algorithm": lambda issuer: unsigned(issuer, alg="none"),
    "no algorithm, in other letters": lambda issuer: unsigned(issuer, alg="nOnE"),
    "no algorithm named": unsigned,
    "a list of algorithms": lambda issuer: unsigned(issuer, alg=["RS256"]),
    "no signature": lambda issuer: issuer.token().rpartition(".")[0] + ".",
    "another body": with_another_body,
    "public key as secret": signed_with_the_public_key,
    "a longer hash": lambda issuer: issuer.token(algorithm="RS512"),
    "another padding": lambda issuer: issuer.token(algorithm="PS256"),
    "a key of another kind": lambda issuer: issuer.token(
        key=ec.generate_private_key(ec.SECP256R1()), algorithm="ES256"
    ),
    "foreign key": foreign(),
    "foreign key, its own name": foreign(kid="evil"),
    "jku": foreign(jku=JWKS_ADDRESS),
    "jku and its own name": foreign(kid="evil", jku=JWKS_ADDRESS),
    "x5u": foreign(x5u="https://evil.example/chain.pem"),
    "jwk": foreign(jwk=PUBLIC_JWK),
    "jwk without a name": foreign(kid=REMOVED, jwk=PUBLIC_JWK),
    "x5c": foreign(x5c=["MIIB"]),
    "an unknown extension": foreign(crit=["evil"], evil=1),
    "kid absent": named(REMOVED),
    "kid empty": named(""),
    "kid of a path": named("../../../../dev/null"),
    "kid of an address": named(JWKS_ADDRESS),
    "kid of a query": named("local' OR '1'='1"),
    "kid with an end": named("local\x00"),
    "kid in other letters": named("LOCAL"),
    "kid of a pattern": named("*"),
    "kid unknown": named("another"),
    "wrong issuer": claiming(iss="https://evil.example"),
    "issuer with a slash": lambda issuer: issuer.token(iss=f"{issuer.url}/"),
    "issuer in a list": lambda issuer: issuer.token(iss=REMOVED, **{"iss ": issuer.url}),
    "no issuer": claiming(iss=REMOVED),
    "wrong audience": claiming(aud="another"),
    "part of the audience": claiming(aud="step"),
    "more than the audience": claiming(aud="stepline-admin"),
    "audiences of others": claiming(aud=["another", "steplin", "stepline "]),
    "audience as a key": claiming(aud={"stepline": True}),
    "no audience": claiming(aud=REMOVED),
    "empty audience": claiming(aud=[]),
    "expired": claiming(exp=NOW - LEEWAY_S - 1),
    "just expired": claiming(exp=NOW - 1),
    "never expires": claiming(exp=REMOVED),
    "expires some day": claiming(exp="4000000000"),
    "expires, true": claiming(exp=True),
    "expires beyond numbers": claiming(exp=10**40),
    "not yet": claiming(nbf=NOW + 86400),
    "not yet, in words": claiming(nbf="later"),
    "issued tomorrow": claiming(iat=NOW + 86400),
    "refresh token": claiming(token_use="refresh"),
    "use of no kind": claiming(token_use=None),
    "use of two kinds": claiming(token_use=["id", "access"]),
    "use in other letters": claiming(token_use="ID"),
    "access token of another client": claiming(token_use="access", client_id="another", aud=REMOVED),
    "access token of no client": claiming(token_use="access", aud=REMOVED),
    "access token for another service": claiming(
        token_use="access", client_id=local_issuer.AUDIENCE, aud="https://another.example"
    ),
    "an ID token by its client": claiming(token_use="id", client_id=local_issuer.AUDIENCE, aud=REMOVED),
    "a plain token by its client": claiming(client_id=local_issuer.AUDIENCE, aud=REMOVED),
    "no tenant": claiming(tenant=REMOVED),
    "null as tenant": claiming(tenant=None),
    "true as tenant": claiming(tenant=True),
    "a number as tenant": claiming(tenant=7),
    "a key as tenant": claiming(tenant="acme#support"),
    "two tenants": claiming(tenant=["tenant:acme", "tenant:other"]),
    "one tenant twice": claiming(tenant=["tenant:acme", "tenant:acme"]),
    "a list without a tenant": claiming(tenant=["acme", "project:acme"]),
    "a tenant within a word": claiming(tenant=["my-tenant:acme", "Tenant:acme"]),
    "a tenant without a name": claiming(tenant=["tenant:"]),
    "two projects": claiming(project=["project:a", "project:b"]),
    "a project as tenant": claiming(tenant=["project:acme"]),
    "no user": claiming(sub=REMOVED),
    "nobody": claiming(sub=""),
    "a list of users": claiming(sub=["ada"]),
    "no token": lambda _: "not.a.token",
}


@pytest.fixture(params=TOKENS)
def token(request: pytest.FixtureRequest, issuer: Issuer) -> str:
    return TOKENS[request.param](issuer)


EXPIRED: Final = frozenset({"unauthorized", "auth_expired"})


def test_a_bad_token_opens_no_websocket(runtime: LambdaRuntime, token: str) -> None:
    assert verdict(runtime, handshake(token)) is None
    assert runtime.lines[-1]["code"] in EXPIRED
    assert token not in runtime.text


def test_a_bad_token_gets_no_ticket(runtime: LambdaRuntime, token: str) -> None:
    assert verdict(runtime, request(token)) is None
    assert runtime.lines[-1]["code"] in EXPIRED
    # Without the authorizer's context there is no user to issue one to.
    event = recorded("ticket")
    del event["requestContext"]["authorizer"]
    with pytest.raises(KeyError):
        runtime.call(api.handler, event)


def test_a_token_is_no_good_in_a_message(runtime: LambdaRuntime, issuer: Issuer) -> None:
    token = (
        issuer.token()
    )  # a ticket is compared and never read: the content of the token makes no difference
    connected(runtime, issuer)
    before = principal_of(runtime)
    (frame,) = say(runtime, {"action": "auth", "ticket": token[-128:]})
    assert isinstance(frame, ErrorFrame)
    assert frame.code == "unauthorized"
    assert principal_of(runtime) == before
    # A refused client has no connection: its messages belong to no user.
    assert [frame.code for frame in say(runtime, SEND, "stranger") if isinstance(frame, ErrorFrame)] == [
        "unauthorized"
    ]
    assert token[-128:] not in runtime.text


FORGED: Final = ("no algorithm", "foreign key", "another body", "wrong issuer", "expired")


@pytest.mark.parametrize("kind", [*FORGED, "a ticket used twice"])
def test_a_rejected_connection_is_refused_every_message(
    runtime: LambdaRuntime, issuer: Issuer, kind: str
) -> None:
    shown = handshake(TOKENS[kind](issuer)) if kind in TOKENS else handshake(ticket=replayed(runtime, issuer))
    assert verdict(runtime, shown) is None
    for one in KINDS:
        (frame,) = say(runtime, good(one, conversation="c-1", ticket=ticket_of(runtime, issuer.token())))
        assert isinstance(frame, ErrorFrame)
        assert frame.code == "unauthorized"
    assert principal_of(runtime) is None


def test_a_bad_token_is_tried_against_the_issuers_own_keys_only(
    runtime: LambdaRuntime, issuer: Issuer
) -> None:
    assert verdict(runtime, handshake(TOKENS["jku"](issuer))) is None
    # Nothing asked evil.example: without a network that would have been "issuer_unreachable".
    assert runtime.lines[-1]["code"] == "unauthorized"


GOOD: Final[dict[str, dict[str, Any]]] = {
    "an ID token": {"token_use": "id"},
    "a token of an issuer that does not say": {},
    "one of several audiences": {"aud": ["another", local_issuer.AUDIENCE]},
    "an access token of our client": {
        "token_use": "access",
        "client_id": local_issuer.AUDIENCE,
        "aud": REMOVED,
    },
    "an access token of our client, for us": {"token_use": "access", "client_id": local_issuer.AUDIENCE},
    "groups that name one tenant and one project": {
        "tenant": ["admins", "tenant:acme", 7, "project:support"],
        "project": ["tenant:acme", "project:support", "tenant:other"],
    },
    "a clock that is a little ahead": {"nbf": NOW + LEEWAY_S // 2, "iat": NOW + LEEWAY_S // 2},
}


@pytest.mark.parametrize("kind", GOOD)
def test_good_tokens_are_let_in_by_the_same_checks(runtime: LambdaRuntime, issuer: Issuer, kind: str) -> None:
    for event in (handshake(issuer.token(**GOOD[kind])), request(issuer.token(**GOOD[kind]))):
        context = verdict(runtime, event)
        assert context is not None
        assert (context["tenant"], context["project"], context["user"]) == ("acme", "support", "ada")


# --- tickets


def connected(runtime: LambdaRuntime, issuer: Issuer, connection: str = "k1", **claims: Any) -> None:
    """Open a connection with a ticket, as a browser does."""
    ticket = ticket_of(runtime, issuer.token(**claims))
    context = verdict(runtime, handshake(ticket=ticket, Origin=SITE))
    assert context is not None
    open_socket(runtime, context, connection)


def replayed(runtime: LambdaRuntime, issuer: Issuer) -> str:
    ticket = ticket_of(runtime, issuer.token())
    assert verdict(runtime, handshake(ticket=ticket)) is not None
    return ticket


def expired(runtime: LambdaRuntime, issuer: Issuer) -> str:
    ticket = ticket_of(runtime, issuer.token())
    runtime.app.ports.clock.pause(TICKET_TTL_S)
    return ticket


TICKETS: Final[dict[str, Callable[[LambdaRuntime, Issuer], str]]] = {
    "replayed": replayed,
    "expired": expired,
    "guessed": lambda _stage, _issuer: "A" * 43,
    "one letter off": lambda runtime, issuer: ticket_of(runtime, issuer.token()).swapcase(),
    "a token": lambda _stage, issuer: issuer.token()[-128:],
    "a key of the table": lambda _stage, _issuer: "TICKET#" + "0" * 64,
}


@pytest.mark.parametrize("kind", TICKETS)
def test_a_bad_ticket_opens_nothing_and_renews_nothing(
    runtime: LambdaRuntime, issuer: Issuer, kind: str
) -> None:
    connected(runtime, issuer)
    before, ticket = principal_of(runtime), TICKETS[kind](runtime, issuer)
    assert verdict(runtime, handshake(ticket=ticket)) is None
    assert runtime.lines[-1]["code"] == "unauthorized"
    assert verdict(runtime, request(ticket)) is None
    (frame,) = say(runtime, {"action": "auth", "ticket": ticket})
    assert isinstance(frame, ErrorFrame)
    assert frame.code == "unauthorized"
    assert principal_of(runtime) == before
    assert ticket not in runtime.text


@pytest.mark.parametrize("other", [{"sub": "bob"}, {"tenant": "other"}, {"project": "other"}], ids=str)
def test_a_ticket_of_another_principal_does_not_take_over_a_connection(
    runtime: LambdaRuntime, issuer: Issuer, other: dict[str, str]
) -> None:
    connected(runtime, issuer)
    before, ticket = principal_of(runtime), ticket_of(runtime, issuer.token(**other))
    for _ in range(2):
        (frame,) = say(runtime, {"action": "auth", "ticket": ticket})
        assert isinstance(frame, ErrorFrame)
        assert frame.code == "unauthorized"
    assert principal_of(runtime) == before
    assert ticket not in runtime.text


def test_a_ticket_renews_no_connection_that_is_not_known(runtime: LambdaRuntime, issuer: Issuer) -> None:
    ticket = ticket_of(runtime, issuer.token())
    (frame,) = say(runtime, {"action": "auth", "ticket": ticket}, "stranger")
    assert isinstance(frame, ErrorFrame)
    assert frame.code == "unauthorized"
    assert principal_of(runtime, "stranger") is None


def test_an_expired_connection_is_refused_every_message_until_a_fresh_ticket_renews_it(
    runtime: LambdaRuntime, issuer: Issuer
) -> None:
    now = int(runtime.app.ports.clock.now().timestamp())
    open_socket(runtime, {"tenant": "acme", "project": "support", "user": "ada", "expires_at": str(now)})
    for kind in KINDS:
        (frame,) = say(runtime, good(kind, conversation="c-1"))
        assert isinstance(frame, ErrorFrame)
        assert frame.code == ("unauthorized" if kind is Auth else "auth_expired")
    (renewed,) = say(
        runtime, {"action": "auth", "ticket": ticket_of(runtime, issuer.token(exp=4_000_000_000))}
    )
    assert renewed == AuthFrame(expires_at=4_000_000_000)
    assert [frame for frame in say(runtime, SEND) if isinstance(frame, AckFrame)]


# --- sites

SITES: Final = {
    "foreign": "https://evil.example",
    "of no site": "null",
    "in other letters": "https://APP.example",
    "scheme in other letters": "HTTPS://app.example",
    "unencrypted": "http://app.example",
    "with the default port": "https://app.example:443",
    "of another port": "https://app.example:8443",
    "with a slash": "https://app.example/",
    "with a path": "https://app.example/page",
    "subdomain": "https://evil.app.example",
    "as a subdomain": "https://app.example.evil.example",
    "with a user": "https://app.example@evil.example",
    "with an end": "https://app.example\x00",
    "with a space": "https://app.example ",
    "two of them": "https://app.example, https://evil.example",
    "any": "*",
    "the list": "https://app.example,https://evil.example",
}


@pytest.mark.parametrize("site", SITES.values(), ids=list(SITES))
def test_a_foreign_site_comes_in_neither_with_a_token_nor_with_a_ticket(
    runtime: LambdaRuntime, issuer: Issuer, site: str
) -> None:
    token, ticket = issuer.token(), ticket_of(runtime, issuer.token())
    for event in (
        handshake(token, Origin=site),
        handshake(ticket=ticket, Origin=site),
        request(token, Origin=site),
    ):
        assert verdict(runtime, event) is None
        assert runtime.lines[-1]["code"] == "origin_not_allowed"
    # The ticket was not used up: it is still good where it was meant for.
    assert verdict(runtime, handshake(ticket=ticket, Origin=SITE)) is not None


def test_a_site_that_says_null_stays_outside_even_where_it_was_let_in_by_mistake(
    runtime: LambdaRuntime, issuer: Issuer
) -> None:
    runtime.wire(STEPLINE_ALLOWED_ORIGINS="null,*")
    for site in ("null", "*x", "https://evil.example"):
        assert verdict(runtime, handshake(issuer.token(), Origin=site)) is None
