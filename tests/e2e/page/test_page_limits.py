"""Money on the chat page: receipts in dollars, what is left of a budget, and what a limit refuses."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.page.axe import find_serious
from tests.e2e.page.chat_page import BRIEF, TURN_S
from tests.e2e.stage import mint

pytestmark = pytest.mark.emulator

USD = re.compile(r"\$\d+\.\d{2,4}")


@pytest.fixture
def limit(chat):
    """Return a function that sets limits of the page's user, as an admin of the tenant."""
    admin = chat.stage.over_http("admin", role="tenant_admin")
    path = f"/v1/tenants/local/projects/default/users/{chat.user}/limits"
    yield lambda **limits: admin.put(path, limits)
    admin.put(path, {})


@pytest.fixture
def priced(chat):
    """Let the next answer be that of a model with a price."""
    chat.stage.fault(kind="slow_tokens", match=BRIEF, model="claude-opus-5-5", token_delay_ms=1)


def left_of(chat):
    return chat.page.locator(".dock .left")


def test_a_receipt_of_the_scripted_model_says_its_name_and_no_dollars(chat):
    chat.take_turn(BRIEF)
    line = chat.page.locator(".receipt-line")
    expect(line).to_contain_text("token units · scripted")
    line.click()
    expect(chat.page.locator(".receipt .costs").get_by_role("row").filter(has_text="agent")).to_contain_text(
        "free"
    )


@pytest.mark.usefixtures("priced")
def test_a_receipt_has_dollars_by_role_and_model_and_the_turns_usage(chat):
    chat.take_turn(BRIEF)
    line = chat.page.locator(".receipt-line")
    expect(line).to_contain_text(USD)
    line.click()
    costs = chat.page.locator(".receipt .costs")
    expect(costs.get_by_role("row").filter(has_text="agent")).to_contain_text(USD)
    expect(costs.get_by_role("row").filter(has_text="Function time, GB-seconds")).to_contain_text("$")
    expect(costs.get_by_role("row").filter(has_text="Total")).to_contain_text(USD)
    assert find_serious(chat.page) == []


@pytest.mark.usefixtures("priced")
def test_the_menu_has_the_sum_of_the_conversation(chat):
    chat.take_turn(BRIEF)
    chat.page.get_by_role("button", name="More").click()
    expect(chat.page.get_by_text("This conversation cost")).to_contain_text(USD)


def test_without_a_limit_no_remainder_is_shown(chat):
    chat.take_turn(BRIEF)
    expect(left_of(chat)).to_have_count(0)


@pytest.mark.usefixtures("priced")
def test_the_remainder_is_below_the_field_and_falls_with_a_turn(chat, limit):
    limit(usd_day=1)
    chat.page.reload()
    expect(left_of(chat)).to_contain_text("$1.00 of $1.00 today")
    chat.take_turn(BRIEF)
    expect(left_of(chat)).to_contain_text(re.compile(r"\$0\.9\d+ of \$1\.00 today"))
    assert find_serious(chat.page) == []


def test_a_message_without_budget_comes_back_with_when_that_ends_and_goes_out_when_the_limit_is_raised(
    chat, limit
):
    limit(usd_day=0)
    chat.say(BRIEF)
    expect(chat.page.locator("#composer-hint")).to_contain_text("Try again at")
    expect(chat.page.get_by_role("alert")).to_contain_text("Try again at")
    expect(chat.field).to_have_value(BRIEF)
    expect(chat.turns).to_have_count(0)
    limit(usd_day=50)
    chat.page.keyboard.press("Enter")
    expect(chat.turns).to_have_count(1)
    chat.await_idle()


def test_the_switch_that_stops_all_work_is_shown_with_its_reason(chat, limit):
    limit(stopped="unpaid since May")
    chat.say(BRIEF)
    expect(left_of(chat)).to_contain_text("unpaid since May", timeout=TURN_S * 1000)
    expect(chat.field).to_have_value(BRIEF)


def test_an_admin_sets_the_limits_of_a_user_in_the_sheet(open_page, scripted):
    chat = open_page()
    token = mint(scripted.deployed, chat.user, role="tenant_admin")
    # The local issuer's form knows no roles: the page asks with an admin's token instead of its own.
    chat.context.route(
        re.compile("/v1/(limits|tenants/)"),
        lambda route: route.continue_(headers={**route.request.headers, "authorization": f"Bearer {token}"}),
    )
    chat.sign_in()
    chat.page.get_by_role("button", name="More").click()
    chat.page.get_by_role("button", name="Organization limits…").click()
    sheet = chat.page.get_by_role("dialog", name="Limits")
    expect(sheet.get_by_role("form", name="Organization local")).to_be_visible()
    expect(sheet.get_by_role("form", name="Project default")).to_be_visible()
    sheet.get_by_label("Limits of a user").fill(chat.user)
    sheet.get_by_role("button", name="Show").click()
    account = sheet.get_by_role("form", name=f"User {chat.user}")
    account.get_by_label("Dollars per day").fill("3")
    assert find_serious(chat.page) == []
    account.get_by_role("button", name="Save").click()
    expect(account).to_contain_text("Saved")
    chat.page.keyboard.press("Escape")
    chat.page.reload()
    expect(left_of(chat)).to_contain_text("$3.00 of $3.00 today")
