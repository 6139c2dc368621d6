"""A browser at the issuer, reduced to a sign-in: requests with its headers, cookies and forms."""

import base64
import hashlib
import http.client
import re
import secrets
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlencode, urlsplit

PAGE = "http://127.0.0.1:4569"
OWN = "http://localhost:5173"
"""A page of the stage's owner."""
NAVIGATION = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: str

    @property
    def location(self):
        return self.headers.get("location", "")

    @property
    def answered(self):
        """The fields of the redirect to the page."""
        return {name: values[0] for name, values in parse_qs(urlsplit(self.location).query).items()}

    @property
    def form(self):
        found = re.search(r'name="form" value="([^"]+)"', self.body)
        return found[1] if found else ""


@dataclass
class Browser:
    url: str
    cookies: dict[str, str] = field(default_factory=dict)
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    key: str = ""

    @property
    def challenge(self):
        made = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(made).rstrip(b"=").decode()

    def ask(self, method, path, *, fields=None, headers=None, body=None):
        place = urlsplit(self.url)
        connection = http.client.HTTPConnection(place.hostname, place.port, timeout=60)
        sent = {"Host": place.netloc, **(headers or {})}
        if self.cookies:
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        if fields is not None:
            body = urlencode(fields)
            sent.setdefault("Content-Type", "application/x-www-form-urlencoded")
        connection.request(
            method, path, body, {name: value for name, value in sent.items() if value is not None}
        )
        response = connection.getresponse()
        answer = Answer(
            response.status,
            {name.lower(): value for name, value in response.getheaders()},
            response.read().decode(),
        )
        connection.close()
        self._take_cookie(answer.headers.get("set-cookie", ""))
        return answer

    def authorize(self, *, headers=NAVIGATION, **changed):
        asked = {
            "response_type": "code",
            "client_id": "stepline",
            "redirect_uri": f"{PAGE}/callback",
            "scope": "openid email",
            "state": "the-state",
            "nonce": "the-nonce",
            "code_challenge": self.challenge,
            "code_challenge_method": "S256",
        }
        kept = {name: value for name, value in {**asked, **changed}.items() if value is not None}
        return self.ask("GET", f"/session/authorize?{urlencode(kept)}", headers=headers)

    def open(self, key):
        """Follow the address that the stage's owner has."""
        return self.ask("GET", f"/session/open?{urlencode({'key': key})}", headers=NAVIGATION)

    def submit(self, form, user="ann", **headers):
        own = {"Origin": self.url, "Sec-Fetch-Site": "same-origin", **headers}
        fields = {"form": form, "user": user} | ({"key": self.key} if self.key else {})
        return self.ask("POST", "/session/authorize", fields=fields, headers=own)

    def sign_in(self, user="ann"):
        """Return the code of a complete sign-in."""
        return self.submit(self.authorize(prompt="login").form, user).answered["code"]

    def exchange(self, code, *, headers=None, **changed):
        asked = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": f"{PAGE}/callback",
            "client_id": "stepline",
            "code_verifier": self.verifier,
        }
        return self.ask(
            "POST", "/token", fields={**asked, **changed}, headers={"Origin": PAGE, **(headers or {})}
        )

    def refresh(self, token):
        asked = {"grant_type": "refresh_token", "refresh_token": token, "client_id": "stepline"}
        return self.ask("POST", "/token", fields=asked, headers={"Origin": PAGE})

    def _take_cookie(self, text):
        if text:
            name, _, value = text.partition(";")[0].partition("=")
            self.cookies[name] = value
            if "Max-Age=0" in text:
                del self.cookies[name]
