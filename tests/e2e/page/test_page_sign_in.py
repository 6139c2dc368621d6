"""Signing in to the chat page, staying signed in, and signing out."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.e2e.page.chat_page import BRIEF

pytestmark = pytest.mark.emulator

SIGNED_OUT = "You are signed out."
MOST_OF_AN_HOUR = "55:00"


def form(page):
    return page.locator("#user")


def sign_out(page):
    page.get_by_role("button", name="More").click()
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/signed-out")


@pytest.fixture
def timed(open_page):
    """The page of a fresh user who has signed in; its clock can be moved on."""
    chat = open_page()
    chat.page.clock.install()
    chat.sign_in()
    return chat


def test_a_reload_signs_in_again_without_asking_and_stays_where_it_was(chat):
    chat.take_turn(BRIEF)
    address = chat.page.url
    expect(chat.page.locator(".who")).to_contain_text(chat.user)
    chat.page.reload()
    chat.await_idle()
    expect(chat.turns).to_have_count(1)
    assert chat.page.url == address
    kept = chat.page.evaluate("() => JSON.stringify([{...localStorage}, {...sessionStorage}, location.href])")
    assert "eyJ" not in kept


def test_an_address_is_kept_while_one_signs_in(open_page):
    chat = open_page()
    chat.sign_in("/search?q=heron")
    expect(chat.page.get_by_role("searchbox")).to_have_value("heron")


def test_a_token_is_renewed_without_a_word(timed):
    timed.take_turn(BRIEF)
    with timed.page.expect_request(is_renewal):
        timed.page.clock.fast_forward(MOST_OF_AN_HOUR)
    timed.take_turn(BRIEF)
    expect(timed.page.get_by_text(SIGNED_OUT)).to_have_count(0)


def is_renewal(request):
    return request.url.endswith("/token") and "grant_type=refresh_token" in (request.post_data or "")


def test_a_session_that_ended_elsewhere_asks_to_sign_in_and_the_draft_stays(timed):
    timed.take_turn(BRIEF)
    address = timed.page.url
    timed.field.fill("What I was about to say.")
    other = timed.beside(timed.open_tab())
    other.open("/")
    expect(other.field).to_be_visible()
    sign_out(other.page)
    timed.page.clock.fast_forward(MOST_OF_AN_HOUR)
    expect(timed.page.locator(".banner")).to_contain_text(SIGNED_OUT)
    expect(timed.field).to_have_value("What I was about to say.")
    expect(timed.page.get_by_role("button", name="Send ⏎")).to_be_disabled()
    timed.page.get_by_role("button", name="Sign in again").click()
    form(timed.page).fill(timed.user)
    timed.page.keyboard.press("Enter")
    timed.await_idle()
    expect(timed.turns).to_have_count(1)
    expect(timed.field).to_have_value("What I was about to say.")
    assert timed.page.url == address
    assert timed.page.evaluate("() => sessionStorage.length") == 0


def refuse_to_rename(route):
    if route.request.method == "PATCH":
        route.fulfill(status=401, body="{}", headers={"Access-Control-Allow-Origin": "*"})
    else:
        route.continue_()


def test_a_refused_token_leads_to_one_sign_in_and_the_draft_returns(chat):
    chat.take_turn(BRIEF)
    chat.field.fill("What I was about to say.")
    chat.page.route("**/v1/conversations/*", refuse_to_rename)
    chat.page.get_by_role("button", name="More").click()
    chat.page.get_by_role("button", name="Rename").click()
    chat.page.get_by_role("textbox", name="Title").fill("Another title")
    chat.page.keyboard.press("Enter")
    expect(chat.page.get_by_role("button", name="Sign in again")).to_have_count(1)
    expect(chat.page.locator(".banner")).to_contain_text(SIGNED_OUT)
    chat.page.get_by_role("button", name="Sign in again").click()
    chat.await_idle()
    expect(chat.turns).to_have_count(1)
    expect(chat.field).to_have_value("What I was about to say.")
    expect(chat.page.get_by_text(SIGNED_OUT)).to_have_count(0)


def test_a_sign_out_ends_the_issuers_session_and_nothing_leads_back_to_the_thread(chat):
    chat.take_turn(BRIEF)
    address = chat.page.url
    sign_out(chat.page)
    expect(chat.page.get_by_text(SIGNED_OUT)).to_be_visible()
    expect(chat.turns).to_have_count(0)
    chat.page.go_back()
    expect(form(chat.page)).to_be_visible()
    chat.page.goto(address)
    expect(form(chat.page)).to_be_visible()
    expect(chat.turns).to_have_count(0)
