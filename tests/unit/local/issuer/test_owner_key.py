"""The owner's key: sign-in needs it, whatever else a caller knows about the stage."""

import json
import stat
from urllib.parse import urlsplit

import pytest

from stepline.local.stage.issuer.authorization import SESSION_S
from stepline.local.stage.issuer.owner_key import load_owner_key, page_address
from tests.unit.local.issuer.browser import NAVIGATION, PAGE, Browser


@pytest.fixture
def stranger(browser):
    """The browser of another user of this machine, who knows every address and name."""
    return Browser(browser.url)


def wrong_keys(key):
    return ["", " ", "x", key[:-1], key + "x", key.swapcase(), f"{key}\n", "ключ", "\x00"]


def test_a_key_is_generated_for_each_stage_and_its_owner_alone_reads_it(tmp_path):
    homes = [tmp_path / "one", tmp_path / "two"]
    for home in homes:
        home.mkdir()
    one, two = map(load_owner_key, homes)
    assert one != two
    assert load_owner_key(homes[0]) == one
    assert stat.S_IMODE((homes[0] / "page_key").stat().st_mode) == 0o600


def test_a_name_without_the_key_signs_no_user_in(stranger):
    form = stranger.authorize()
    assert 'name="key"' in form.body
    answer = stranger.submit(form.form, "ann")
    assert (answer.status, answer.location, stranger.cookies) == (200, "", {})
    assert stranger.authorize(prompt="none").answered["error"] == "login_required"


def test_no_other_text_is_the_key(stranger, browser):
    for text in wrong_keys(browser.key):
        stranger.key = text
        form = stranger.authorize()
        assert stranger.submit(form.form, "ann").status == 200
        opened = stranger.open(text)
        assert (opened.status, opened.location, stranger.cookies) == (403, "", {})


def test_the_key_in_the_form_signs_in_and_a_mistake_may_be_mended(stranger, browser):
    stranger.key = "x"
    again = stranger.submit(stranger.authorize().form, "ann")
    assert 'role="alert"' in again.body
    stranger.key = browser.key
    assert "code" in stranger.submit(again.form, "ann").answered


def test_the_printed_address_leads_to_the_page_and_lets_its_browser_sign_in_by_name(stranger, home):
    address = urlsplit(page_address(stranger.url, home))
    opened = stranger.ask("GET", f"{address.path}?{address.query}", headers=NAVIGATION)
    assert (opened.status, opened.location) == (303, f"{PAGE}/")
    assert opened.headers["cache-control"] == "no-store"
    assert "HttpOnly" in opened.headers["set-cookie"]
    assert address.query.partition("=")[2] not in opened.headers["set-cookie"]
    form = stranger.authorize()
    assert 'name="key"' not in form.body
    code = stranger.submit(form.form, "ann").answered["code"]
    assert stranger.exchange(code).status == 200


def test_a_browser_that_was_let_in_signs_out_and_in_again_and_is_asked_after_half_a_day(browser, clock):
    key, browser.key = browser.key, ""
    browser.open(key)
    token = json.loads(browser.exchange(browser.sign_in("ann")).body)["id_token"]
    browser.ask("GET", f"/session/end?id_token_hint={token}", headers=NAVIGATION)
    assert 'name="key"' not in browser.authorize().body
    clock.now_s += SESSION_S
    assert 'name="key"' in browser.authorize().body


@pytest.mark.parametrize("dest", ["iframe", "image", "empty", "script"])
def test_the_address_is_followed_and_not_fetched(stranger, browser, home, dest):
    path = urlsplit(page_address(browser.url, home)).path
    answer = stranger.ask("GET", f"{path}?key={browser.key}", headers={**NAVIGATION, "Sec-Fetch-Dest": dest})
    assert (answer.status, stranger.cookies) == (403, {})


def test_the_cookie_of_another_stage_is_none_of_this_one(stranger, browser):
    port = urlsplit(stranger.url).port
    stranger.cookies[f"stepline_{port}_owner"] = browser.key
    assert stranger.submit(stranger.authorize().form, "ann").status == 200
