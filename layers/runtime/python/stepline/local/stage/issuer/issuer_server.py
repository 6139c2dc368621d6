"""The issuer over HTTP: documents and tokens for all programs on this machine, sign-in pages for the pages of the stage only.

Redirects go to registered addresses only, compared character by character. The pages answer a browser that displays
them, not one that embeds or fetches them, and accept a form only from themselves.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from html import escape
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import parse_qs, urlencode, urlsplit

from stepline.local.guard.own_server import HEALTH, OwnServer, own_identity
from stepline.local.stage.deployed import HOME
from stepline.local.stage.issuer.authorization import (
    SESSION_S,
    Authorization,
    AuthorizationGrant,
    RefusedGrantError,
    SignIns,
)
from stepline.local.stage.issuer.owner_key import OPEN_SESSION, load_owner_key
from stepline.local.stage.issuer.signing import (
    AUDIENCE,
    AUTHORIZE,
    DISCOVERY,
    END_SESSION,
    JWKS,
    REVOKE,
    SESSION,
    TOKEN_PATH,
    discovery,
    key_set,
    load_key,
    sign_token,
    subject_of,
)
from stepline.local.stage.service import LOOPBACK
from stepline.model.ids import is_user

_STYLE: Final = """
:root { color-scheme: light dark; font: 16px/1.6 system-ui, sans-serif; }
body { margin: 0 auto; padding: 12vh 24px 24px; max-width: 26rem; }
h1 { font-size: 1.15rem; font-weight: 600; margin: 0 0 4px; }
p { margin: 0 0 24px; opacity: .75; }
label { display: block; font-size: .85rem; margin-bottom: 4px; }
input, button { font: inherit; padding: 9px 12px; border-radius: 6px; border: 1px solid #7d8b90; }
input { width: 100%; box-sizing: border-box; background: transparent; color: inherit; margin-bottom: 16px; }
button { background: #0b6e74; border-color: #0b6e74; color: #fff; min-height: 44px; padding-inline: 20px; cursor: pointer; }
input:focus-visible, button:focus-visible { outline: 2px solid #0b8f97; outline-offset: 2px; }
.wrong { color: light-dark(#a3222c, #ff9aa0); opacity: 1; }
"""
_KEY_FIELD: Final = """<label for="key">Key, of the address that `stepline page` prints</label>
<input id="key" name="key" type="password" maxlength="128" required autocomplete="off">
"""
_DIGEST: Final = b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()


def render_policy(*pages: str) -> str:
    """Return the policy of the pages: a style, and a form that posts here and redirects to one of `pages`."""
    targets = " ".join(("'self'", *pages))
    return (
        f"default-src 'none'; style-src 'sha256-{_DIGEST}'; form-action {targets}; base-uri 'none'; "
        "frame-ancestors 'none'"
    )


def render_form(form: str, name: str, *, asks_key: bool, wrong: str = "") -> str:
    """Return the form. `form` is its secret value, `name` the suggested name; `asks_key` adds a field for the key."""
    note = f'<p class="wrong" role="alert">{escape(wrong)}</p>' if wrong else ""
    return _render(
        "Sign in to Stepline",
        f"""<h1>Sign in to Stepline</h1>
<p>This is a development stage on this machine: any name will do. Its key is for its owner alone.</p>
{note}<form method="post" action="{AUTHORIZE}">
<input type="hidden" name="form" value="{escape(form)}">
<label for="user">Name</label>
<input id="user" name="user" value="{escape(name)}" maxlength="64" required autofocus autocomplete="username" spellcheck="false">
{_KEY_FIELD if asks_key else ""}<button>Sign in</button>
</form>""",
    )


def _render_message(title: str, words: str) -> str:
    """Return a page that only shows a message."""
    return _render(title, f"<h1>{escape(title)}</h1>\n<p>{escape(words)}</p>")


def _render(title: str, body: str) -> str:
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
{body}
</body>
</html>
"""


LIFETIME_S: Final = 3600
CALLBACK: Final = "/callback"
SIGNED_OUT: Final = "/signed-out"
"""The paths of the chat page to which a sign-in and a sign-out lead."""
BODY_MAX_BYTES: Final = 8192
_FIELDS_MAX: Final = 20
_FORM: Final = "application/x-www-form-urlencoded"
_CHALLENGE_CHARS: Final = 43
_HTML: Final = "text/html; charset=utf-8"


@dataclass(frozen=True)
class _IssuerSite:
    """The issuer's address, the chat page that may sign in here, "" for none, and the name that its form suggests.

    `origins` are those of further pages that may.
    """

    url: str
    page: str
    name: str
    home: Path
    origins: tuple[str, ...] = ()
    sign_ins: SignIns = field(default_factory=SignIns)
    key: str = field(default="", repr=False)

    @property
    def pages(self) -> tuple[str, ...]:
        return (*filter(None, [self.page]), *self.origins)

    def may_lead_to(self, address: str, own: str) -> bool:
        """Return True if an address is registered: `own` of the chat page, and the root of any other, as in AWS."""
        registered = [f"{origin}/" for origin in self.origins]
        return address in registered or (bool(self.page) and address == f"{self.page}{own}")

    @property
    def cookie(self) -> str:
        """The name of the session cookie: cookies ignore ports, and a machine may have several issuers."""
        return f"stepline_{urlsplit(self.url).port}"

    @property
    def owner_cookie(self) -> str:
        """The name of the cookie of a browser that has presented the owner's key."""
        return f"{self.cookie}_owner"


class IssuerHandler(BaseHTTPRequestHandler):
    """One request; a subclass sets `site`."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are sent separately; the body would wait for an ACK
    timeout = 30
    site: ClassVar[_IssuerSite]

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        match path:
            case _ if not self._is_allowed():
                self._refuse(HTTPStatus.FORBIDDEN, "Not here", f"Ask for {self.site.url}.")
            case _ if path == HEALTH:
                self._say(HTTPStatus.OK, own_identity().encode(), {"Content-Type": "text/plain"})
            case _ if path in (DISCOVERY, JWKS):
                self._give_document(path)
            case _ if path not in (AUTHORIZE, END_SESSION, OPEN_SESSION):
                self._say_json(HTTPStatus.NOT_FOUND, {"error": "not_found"})
            case _ if (asked := _read_fields(query)) is None:
                self._refuse(HTTPStatus.BAD_REQUEST, "Not understood", "The address repeats a parameter.")
            case _ if self.headers.get("sec-fetch-dest", "document") != "document":
                self._refuse(HTTPStatus.FORBIDDEN, "Not here", "This page cannot be embedded.")
            case _ if path == AUTHORIZE:
                self._authorize(asked)
            case _ if path == OPEN_SESSION:
                self._open(asked)
            case _:
                self._end_session(asked)

    def do_POST(self) -> None:
        path = self.path.partition("?")[0]
        fields = self._read_form()
        match path:
            case _ if not self._is_allowed():
                self._refuse(HTTPStatus.FORBIDDEN, "Not here", f"Ask for {self.site.url}.")
            case _ if fields is None:
                self._say_json(HTTPStatus.BAD_REQUEST, {"error": "invalid_request"})
            case _ if path == TOKEN_PATH:
                self._give_tokens(fields)
            case _ if path == REVOKE:
                self.site.sign_ins.revoke(fields.get("token", ""))
                self._say_json(HTTPStatus.OK, {})
            case _ if path == AUTHORIZE:
                self._sign_in(fields)
            case _:
                self._say_json(HTTPStatus.NOT_FOUND, {"error": "not_found"})

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log a request without its query, which may contain a token."""
        self.log_message("%s %s %s", self.command, self.path.partition("?")[0][:100], str(code))

    def _is_allowed(self) -> bool:
        """Return True for our own name, and a page that may call: the registered one, and for forms our own.

        A foreign page that resolves its name to this machine has another `Host`.
        """
        path = self.path.partition("?")[0]
        allowed = (self.site.url,) if path == AUTHORIZE else self.site.pages
        origins = self.headers.get_all("origin", [])
        if self.command == "POST" and path == AUTHORIZE and not origins:
            return False
        own_host = self.headers.get_all("host", []) == [urlsplit(self.site.url).netloc]
        return own_host and (not origins or (len(origins) == 1 and origins[0] in allowed))

    def _give_document(self, path: str) -> None:
        body = discovery(self.site.url) if path == DISCOVERY else key_set(load_key(self.site.home))
        self._say_json(HTTPStatus.OK, body)

    def _open(self, asked: Mapping[str, str]) -> None:
        """Let this browser sign in: it used the address with the owner's key."""
        site = self.site
        if not site.page or not self._is_key(asked.get("key", "")):
            words = "`stepline page` prints the address that opens this stage."
            self._refuse(HTTPStatus.FORBIDDEN, "This is not the stage's address", words)
            return
        cookie = self._cookie(site.owner_cookie, site.sign_ins.admit_owner(), SESSION_S)
        self._redirect(f"{site.page}/", cookie)

    def _authorize(self, asked: Mapping[str, str]) -> None:
        """Answer the first request of a sign-in: with a code for the existing session, or with the form."""
        site = self.site
        back = asked.get("redirect_uri", "")
        if asked.get("client_id") != AUDIENCE or not site.may_lead_to(back, CALLBACK):
            # Nothing is sent to an address that is not registered.
            self._refuse(
                HTTPStatus.BAD_REQUEST, "Unknown client", "This is not the address of a page of the stage."
            )
            return
        if error := _check_request(asked):
            self._redirect_back(back, {"error": error, "state": asked.get("state", "")})
            return
        wanted = Authorization(
            client_id=AUDIENCE,
            redirect_uri=back,
            state=asked.get("state", ""),
            nonce=asked.get("nonce", ""),
            challenge=asked["code_challenge"],
        )
        session, prompt = self._session(), asked.get("prompt", "")
        if site.sign_ins.user_of(session) and prompt != "login":
            code = site.sign_ins.grant_code(wanted, session)
            self._redirect_back(back, {"code": code, "state": wanted.state})
        elif prompt == "none":
            self._redirect_back(back, {"error": "login_required", "state": wanted.state})
        else:
            self._show_form(wanted)

    def _sign_in(self, fields: Mapping[str, str]) -> None:
        """Accept the form: begin a session and redirect with a code."""
        site = self.site
        wanted, user = site.sign_ins.forms.take(fields.get("form", "")), fields.get("user", "").strip()
        if wanted is None:
            words = "It was sent before, or it was open for too long. Open the chat page again."
            self._refuse(HTTPStatus.BAD_REQUEST, "This form is no longer valid", words)
            return
        if not (self._is_owner() or self._is_key(fields.get("key", ""))):
            self._show_form(
                wanted, wrong="This is not the stage's key: `stepline page` prints an address with it."
            )
            return
        if not is_user(user):
            self._show_form(wanted, wrong="A name has letters, digits and signs of ASCII.")
            return
        site.sign_ins.end(self._session())
        session = site.sign_ins.begin(user)
        self._redirect_back(
            wanted.redirect_uri,
            {"code": site.sign_ins.grant_code(wanted, session), "state": wanted.state},
            cookie=self._cookie(site.cookie, session, SESSION_S),
        )

    def _show_form(self, wanted: Authorization, *, wrong: str = "") -> None:
        """Show the form, which asks for the key unless this browser has presented it."""
        site = self.site
        form = render_form(
            site.sign_ins.forms.put(wanted), site.name, asks_key=not self._is_owner(), wrong=wrong
        )
        self._say_html(HTTPStatus.OK, form)

    def _is_owner(self) -> bool:
        return self.site.sign_ins.is_owner(self._read_cookie(self.site.owner_cookie))

    def _is_key(self, text: str) -> bool:
        return bool(self.site.key) and hmac.compare_digest(text.encode(), self.site.key.encode())

    def _end_session(self, asked: Mapping[str, str]) -> None:
        """End the session of the user whom the token names: another site has no token, so it can sign out no user."""
        site = self.site
        user = subject_of(asked.get("id_token_hint", ""), site.url, site.home)
        if not user:
            words = "A sign-out needs the user's token, which the chat page has."
            self._refuse(HTTPStatus.BAD_REQUEST, "No user is signed out", words)
            return
        session = self._session()
        ours = site.sign_ins.user_of(session) in (user, "")
        if ours:
            site.sign_ins.end(session)
        gone = self._cookie(site.cookie, "", 0) if ours else ""
        if site.may_lead_to(back := asked.get("post_logout_redirect_uri", ""), SIGNED_OUT):
            state = {"state": asked["state"]} if asked.get("state") else {}
            self._redirect(f"{back}{'?' if state else ''}{urlencode(state)}", gone)
        else:
            self._say_html(
                HTTPStatus.OK, _render_message("Signed out", "You can close this window."), cookie=gone
            )

    def _give_tokens(self, fields: Mapping[str, str]) -> None:
        """Answer the token endpoint. Source: RFC 6749 §5."""
        sign_ins = self.site.sign_ins
        if fields.get("client_id") != AUDIENCE:
            self._say_json(HTTPStatus.BAD_REQUEST, {"error": "invalid_client"})
            return
        try:
            match fields.get("grant_type"):
                case "authorization_code":
                    grant = sign_ins.redeem(
                        fields.get("code", ""),
                        client_id=AUDIENCE,
                        redirect_uri=fields.get("redirect_uri", ""),
                        verifier=fields.get("code_verifier", ""),
                    )
                case "refresh_token":
                    grant = sign_ins.refresh(fields.get("refresh_token", ""))
                case _:
                    self._say_json(HTTPStatus.BAD_REQUEST, {"error": "unsupported_grant_type"})
                    return
        except RefusedGrantError:
            self._say_json(HTTPStatus.BAD_REQUEST, {"error": "invalid_grant"})
            return
        self._say_json(HTTPStatus.OK, self._tokens(grant))

    def _tokens(self, grant: AuthorizationGrant) -> dict[str, Any]:
        site = self.site
        make = partial(sign_token, grant.user, issuer_url=site.url, home=site.home, ttl_s=LIFETIME_S)
        return {
            "access_token": make(),
            "id_token": make(nonce=grant.nonce),
            "refresh_token": site.sign_ins.allow_refresh(grant),
            "token_type": "Bearer",
            "expires_in": LIFETIME_S,
            "scope": "openid email",
        }

    def _session(self) -> str:
        """Return the name of the browser's session, "" without one."""
        return self._read_cookie(self.site.cookie)

    def _read_cookie(self, name: str) -> str:
        try:
            found = SimpleCookie(self.headers.get("cookie", "")).get(name)
        except CookieError:
            return ""
        return found.value if found else ""

    def _cookie(self, name: str, value: str, ttl_s: int) -> str:
        return f"{name}={value}; Path={SESSION}; Max-Age={ttl_s}; HttpOnly; SameSite=Lax"

    def _read_form(self) -> dict[str, str] | None:
        """Return the fields of a posted form, None if it is invalid or too long."""
        size = self.headers.get("content-length", "")
        if not size.isdecimal() or int(size) > BODY_MAX_BYTES:
            self.close_connection = True
            return None
        body = self.rfile.read(int(size))
        is_form = self.headers.get_content_type() == _FORM
        return _read_fields(body.decode("latin-1")) if is_form else None

    def _redirect_back(self, back: str, answer: Mapping[str, str], *, cookie: str = "") -> None:
        """Redirect to the page. `iss` names the issuer of the answer (RFC 9207)."""
        query = {name: value for name, value in answer.items() if value}
        self._redirect(f"{back}?{urlencode({**query, 'iss': self.site.url})}", cookie)

    def _redirect(self, url: str, cookie: str) -> None:
        self._say(HTTPStatus.SEE_OTHER, b"", {"Location": url}, cookie)

    def _refuse(self, status: HTTPStatus, title: str, words: str) -> None:
        self._say_html(status, _render_message(title, words))

    def _say_html(self, status: HTTPStatus, text: str, *, cookie: str = "") -> None:
        headers = {"Content-Type": _HTML, "Content-Security-Policy": render_policy(*self.site.pages)}
        self._say(status, text.encode(), headers, cookie)

    def _say_json(self, status: HTTPStatus, body: Mapping[str, Any]) -> None:
        headers = {"Content-Type": "application/json"}
        if (origin := self.headers.get("origin")) in self.site.pages:
            headers |= {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}
        self._say(status, json.dumps(body).encode(), headers)

    def _say(self, status: HTTPStatus, body: bytes, headers: Mapping[str, str], cookie: str = "") -> None:
        self.send_response(status)
        # Not `no-referrer`: a browser would then send the form without naming its page.
        fixed = {
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
            "Referrer-Policy": "same-origin",
            "X-Content-Type-Options": "nosniff",
        }
        for name, value in {**fixed, **headers, **({"Set-Cookie": cookie} if cookie else {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def make_issuer_server(
    port: int,
    home: Path = HOME,
    *,
    page: str = "",
    origins: tuple[str, ...] = (),
    name: str = "",
    sign_ins: SignIns | None = None,
) -> OwnServer:
    """Return the issuer's server; port 0 picks a free one.

    `page` is the origin of the chat page, `origins` are those of the only other pages that may sign a user in.
    """

    class Handler(IssuerHandler):
        pass

    server = OwnServer((LOOPBACK, port), Handler)
    url = f"http://{LOOPBACK}:{server.server_address[1]}"
    Handler.site = _IssuerSite(
        url=url,
        page=page,
        origins=origins,
        name=name,
        home=home,
        sign_ins=sign_ins or SignIns(),
        key=load_owner_key(home),
    )
    load_key(home)
    return server


def _read_fields(text: str) -> dict[str, str] | None:
    """Return the fields of a query or a form, None if one occurs twice or there are too many."""
    try:
        found = parse_qs(text, keep_blank_values=True, max_num_fields=_FIELDS_MAX)
    except ValueError:
        return None
    if any(len(values) > 1 for values in found.values()):
        return None
    return {name: values[0] for name, values in found.items()}


def _check_request(asked: Mapping[str, str]) -> str:
    """Return the error of a sign-in request, "" if it has none. Source: RFC 6749 §4.1.2.1, RFC 7636 §4.4.1."""
    if asked.get("response_type") != "code":
        return "unsupported_response_type"
    if "openid" not in asked.get("scope", "").split():
        return "invalid_scope"
    challenge = asked.get("code_challenge", "")
    if asked.get("code_challenge_method") != "S256" or len(challenge) != _CHALLENGE_CHARS:
        return "invalid_request"
    return "" if asked.get("prompt", "") in ("", "none", "login") else "invalid_request"
