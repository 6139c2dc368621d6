"""The sign-in of the chat page at the local issuer: authorization code with PKCE, and all its refusals."""

import json

import jwt
import pytest

from stepline.local.stage.issuer.authorization import CODE_S, FORM_S, KEPT_MAX, SESSION_S, ExpiringStore
from stepline.local.stage.issuer.signing import load_key
from tests.unit.local.issuer.browser import NAVIGATION, OWN, PAGE, Browser


def claims(token, browser, home):
    public = load_key(home).public_key()
    return jwt.decode(token, public, algorithms=["RS256"], audience="stepline", issuer=browser.url)


def test_a_name_signs_in_and_the_code_gives_a_token_with_the_nonce(browser, home):
    form = browser.authorize()
    assert form.status == 200
    assert "development stage on this machine" in form.body
    back = browser.submit(form.form, "ann")
    assert back.status == 303
    assert back.location.startswith(f"{PAGE}/callback?")
    assert (back.answered["state"], back.answered["iss"]) == ("the-state", browser.url)
    answer = browser.exchange(back.answered["code"])
    tokens = json.loads(answer.body)
    found = claims(tokens["id_token"], browser, home)
    assert (found["sub"], found["nonce"], found["exp"] - found["iat"]) == ("ann", "the-nonce", 3600)
    assert (tokens["token_type"], tokens["expires_in"]) == ("Bearer", 3600)
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert answer.headers["cache-control"] == "no-store"


def test_a_reload_signs_in_without_a_page(browser):
    browser.sign_in("ann")
    back = browser.authorize(prompt="none")
    assert (back.status, browser.exchange(back.answered["code"]).status) == (303, 200)
    assert browser.authorize().answered.keys() == {"code", "state", "iss"}


def test_a_page_of_the_owner_signs_in_and_out_at_its_root(browser):
    back = browser.submit(browser.authorize(redirect_uri=f"{OWN}/").form)
    assert back.location.startswith(f"{OWN}/?")
    silent = browser.authorize(redirect_uri=f"{OWN}/", prompt="none")
    assert silent.location.startswith(f"{OWN}/?")
    code = silent.answered["code"]
    assert browser.exchange(code, headers={"Origin": OWN}).status == 400  # the code is for another address
    code = back.answered["code"]
    answer = browser.exchange(code, headers={"Origin": OWN}, redirect_uri=f"{OWN}/")
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, OWN)
    token = json.loads(answer.body)["id_token"]
    gone = browser.ask("GET", sign_out(token, f"{OWN}/"), headers=NAVIGATION)
    assert (gone.status, gone.location) == (303, f"{OWN}/")


def test_a_silent_request_without_a_session_needs_a_login(browser):
    back = browser.authorize(prompt="none")
    assert back.answered["error"] == "login_required"
    assert back.answered["state"] == "the-state"


def test_a_session_ends_with_the_sign_out_and_after_half_a_day(browser, clock):
    tokens = json.loads(browser.exchange(browser.sign_in()).body)
    clock.now_s += SESSION_S - 1
    assert "code" in browser.authorize(prompt="none").answered
    clock.now_s += 1
    assert browser.authorize(prompt="none").answered["error"] == "login_required"
    browser.sign_in()
    gone = browser.ask("GET", sign_out(tokens["id_token"]), headers=NAVIGATION)
    assert (gone.status, gone.location) == (303, f"{PAGE}/signed-out")
    assert browser.cookies == {}
    assert browser.authorize(prompt="none").answered["error"] == "login_required"


def sign_out(token, to=f"{PAGE}/signed-out"):
    return f"/session/end?id_token_hint={token}&client_id=stepline&post_logout_redirect_uri={to}"


def test_a_request_without_the_users_token_signs_no_user_out(browser):
    browser.sign_in("ann")
    for token in ("", "x.y.z"):
        assert browser.ask("GET", sign_out(token), headers=NAVIGATION).status == 400
    other = Browser(browser.url, key=browser.key)
    bobs = json.loads(other.exchange(other.sign_in("bob")).body)["id_token"]
    assert browser.ask("GET", sign_out(bobs), headers=NAVIGATION).status == 303
    assert "code" in browser.authorize(prompt="none").answered


def test_a_sign_out_leads_to_no_foreign_address(browser):
    token = json.loads(browser.exchange(browser.sign_in()).body)["id_token"]
    gone = browser.ask("GET", sign_out(token, "http://evil.test/signed-out"), headers=NAVIGATION)
    assert (gone.status, gone.location) == (200, "")


@pytest.mark.parametrize(
    "changed",
    [
        {"redirect_uri": "http://evil.test/callback"},
        {"redirect_uri": f"{PAGE}/callback/"},
        {"redirect_uri": f"{PAGE}/callback?x=1"},
        {"redirect_uri": "http://localhost:4569/callback"},
        {"redirect_uri": f"{PAGE}/"},
        {"redirect_uri": OWN},
        {"redirect_uri": f"{OWN}/callback"},
        {"redirect_uri": "http://127.0.0.1:5173/"},
        {"redirect_uri": None},
        {"client_id": "other"},
    ],
)
def test_an_unregistered_address_gets_no_redirect(browser, changed):
    browser.sign_in()
    answer = browser.authorize(**changed)
    assert (answer.status, answer.location) == (400, "")


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"scope": "email"}, "invalid_scope"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"prompt": "consent"}, "invalid_request"),
    ],
)
def test_a_request_without_a_challenge_or_for_something_else_is_refused_at_the_page(browser, changed, error):
    browser.sign_in()
    assert browser.authorize(**changed).answered["error"] == error


def test_a_repeated_field_is_refused(browser):
    answer = browser.ask("GET", "/session/authorize?state=a&state=b", headers=NAVIGATION)
    assert answer.status == 400


def test_a_code_is_worth_nothing_without_its_verifier(browser):
    for changed in (
        {"code_verifier": "x" * 43},
        {"code_verifier": ""},
        {"redirect_uri": f"{PAGE}/other"},
        {"client_id": "other"},
    ):
        code = browser.sign_in()
        assert browser.exchange(code, **changed).status == 400
    assert browser.exchange("none").status == 400


def test_a_wrong_guess_uses_a_code_up(browser):
    code = browser.sign_in()
    assert browser.exchange(code, code_verifier="x" * 43).status == 400
    assert json.loads(browser.exchange(code).body) == {"error": "invalid_grant"}


def test_a_code_used_twice_ends_its_session(browser):
    code = browser.sign_in()
    refresh = json.loads(browser.exchange(code).body)["refresh_token"]
    assert browser.exchange(code).status == 400
    assert browser.refresh(refresh).status == 400
    assert browser.authorize(prompt="none").answered["error"] == "login_required"


def test_a_code_is_short_lived(browser, clock):
    code = browser.sign_in()
    clock.now_s += CODE_S
    assert browser.exchange(code).status == 400


def test_a_refresh_token_is_used_once_and_ends_with_the_session(browser, home):
    tokens = json.loads(browser.exchange(browser.sign_in()).body)
    renewed = json.loads(browser.refresh(tokens["refresh_token"]).body)
    assert claims(renewed["id_token"], browser, home)["sub"] == "ann"
    assert browser.refresh(tokens["refresh_token"]).status == 400
    browser.ask("GET", sign_out(renewed["id_token"]), headers=NAVIGATION)
    assert browser.refresh(renewed["refresh_token"]).status == 400


def test_a_refresh_token_can_be_revoked(browser):
    token = json.loads(browser.exchange(browser.sign_in()).body)["refresh_token"]
    assert browser.ask("POST", "/revoke", fields={"token": token}, headers={"Origin": PAGE}).status == 200
    assert browser.refresh(token).status == 400


def test_a_form_is_sent_once_and_in_time(browser, clock):
    form = browser.authorize(prompt="login").form
    assert browser.submit(form).status == 303
    assert browser.submit(form).status == 400
    late = browser.authorize(prompt="login").form
    clock.now_s += FORM_S
    assert browser.submit(late).status == 400
    assert browser.submit("made-up").status == 400


@pytest.mark.parametrize("origin", [None, "null", "http://evil.test", PAGE, "http://127.0.0.1:1"])
def test_no_other_page_sends_the_form(browser, origin):
    answer = browser.submit(browser.authorize().form, Origin=origin)
    assert (answer.status, answer.location, browser.cookies) == (403, "", {})


@pytest.mark.parametrize("name", ["", "   ", "a\nb", "änn", "a" * 500])
def test_an_invalid_name_shows_the_form_again(browser, name):
    again = browser.submit(browser.authorize().form, name)
    assert (again.status, browser.cookies) == (200, {})
    assert browser.submit(again.form, "ann").status == 303


def test_a_page_shows_names_as_text_and_runs_nothing(browser):
    answer = browser.authorize()
    assert 'value="o&#x27;hara"' in answer.body
    policy = answer.headers["content-security-policy"]
    assert "script-src" not in policy
    assert "unsafe" not in policy
    assert {"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"} <= set(policy.split("; "))
    assert f"form-action 'self' {PAGE} {OWN};" in policy
    assert "<script" not in answer.body


@pytest.mark.parametrize("dest", ["iframe", "image", "empty", "script"])
def test_a_sign_in_is_neither_embedded_nor_fetched(browser, dest):
    browser.sign_in()
    answer = browser.authorize(prompt="none", headers={**NAVIGATION, "Sec-Fetch-Dest": dest})
    assert (answer.status, answer.location) == (403, "")


@pytest.mark.parametrize("host", ["evil.test", "localhost:1", None, "127.0.0.1"])
def test_a_foreign_name_reaches_nothing(browser, host):
    for method, path in (("GET", "/session/authorize"), ("GET", "/jwks.json"), ("POST", "/token")):
        fields = {"client_id": "stepline"} if method == "POST" else None
        assert browser.ask(method, path, headers={"Host": host or "x"}, fields=fields).status == 403


@pytest.mark.parametrize(
    "origin", ["http://evil.test", "null", "http://localhost:4569", f"{PAGE}0", f"{OWN}0"]
)
def test_documents_and_tokens_are_shared_with_the_stages_pages_alone(browser, origin):
    code = browser.sign_in()
    asked = browser.exchange(code, headers={"Origin": origin})
    assert asked.status == 403
    assert "access-control-allow-origin" not in asked.headers
    discovery = "/.well-known/openid-configuration"
    assert browser.ask("GET", discovery, headers={"Origin": origin}).status == 403
    assert "access-control-allow-origin" not in browser.ask("GET", discovery).headers
    for page in (PAGE, OWN):
        shared = browser.ask("GET", discovery, headers={"Origin": page})
        assert shared.headers["access-control-allow-origin"] == page
        assert "access-control-allow-credentials" not in shared.headers


def test_the_metadata_lists_the_supported_features(browser):
    found = json.loads(browser.ask("GET", "/.well-known/openid-configuration").body)
    assert found["issuer"] == browser.url
    assert found["authorization_endpoint"] == f"{browser.url}/session/authorize"
    assert found["response_types_supported"] == ["code"]
    assert found["code_challenge_methods_supported"] == ["S256"]


def test_the_cookie_goes_to_sign_ins_alone(browser):
    set_cookie = browser.submit(browser.authorize().form).headers["set-cookie"]
    port = browser.url.rpartition(":")[2]
    assert set_cookie.startswith(f"stepline_{port}=")
    assert {"Path=/session", "HttpOnly", "SameSite=Lax"} <= set(set_cookie.split("; "))


def test_a_body_that_is_no_form_or_too_long_is_refused(browser):
    json_body = browser.ask("POST", "/token", body="{}", headers={"Content-Type": "application/json"})
    assert json_body.status == 400
    long = browser.ask("POST", "/token", fields={"code": "x" * 9000})
    assert long.status == 400


def test_the_oldest_entry_is_dropped_when_the_store_is_full(clock):
    shelf = ExpiringStore(60, clock)
    names = [shelf.put(at) for at in range(KEPT_MAX + 1)]
    assert shelf.get(names[0]) is None
    assert shelf.get(names[-1]) == KEPT_MAX
