from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from stepline.adapters.aws.table import ticket_pk, ticket_sk
from stepline.errors import AuthError, DependencyError
from stepline.model.ids import PERSON_CHARS, person
from stepline.ports.channel import Principal
from stepline.ports.identity import TICKET_TTL_S, Tickets

FAR = 4_000_000_000
PRINCIPAL = Principal(
    tenant="acme", project="docs", user='Ada "the" Count#ess', expires_at=FAR, role="tenant_admin"
)


@pytest.fixture
def tickets(backend) -> Tickets:
    return backend.tickets


def refusal(tickets: Tickets, ticket: str) -> str:
    with pytest.raises(AuthError) as caught:
        tickets.redeem(ticket)
    return caught.value.reason


def lasting(backend, seconds: int) -> Principal:
    """Return a principal whose token expires in `seconds`."""
    return replace(PRINCIPAL, expires_at=int(backend.clock.now().timestamp()) + seconds)


def test_a_ticket_is_redeemed_for_its_principal_once(tickets):
    ticket = tickets.issue(PRINCIPAL)
    assert tickets.redeem(ticket) == PRINCIPAL
    assert refusal(tickets, ticket) == "unauthorized"


def test_tickets_are_long_unlike_each_other_and_fit_into_an_address(tickets):
    issued = [tickets.issue(PRINCIPAL) for _ in range(20)]
    assert len(set(issued)) == 20
    assert all(len(ticket) >= 43 and ticket.isascii() for ticket in issued)
    assert {char for char in "".join(issued) if not char.isalnum()} <= set("-_")


def test_each_ticket_is_redeemed_for_its_own_principal(tickets):
    bob = replace(PRINCIPAL, user="bob")
    one, two = tickets.issue(PRINCIPAL), tickets.issue(bob)
    assert tickets.redeem(two) == bob
    assert tickets.redeem(one) == PRINCIPAL


@pytest.mark.parametrize("ticket", ["", "x", "a" * 43, "a" * 5000, "\0", "HEAD", "\ud800"], ids=ascii)
def test_an_unissued_text_is_no_ticket(tickets, ticket):
    assert refusal(tickets, ticket) == "unauthorized"


def test_a_ticket_is_compared_letter_by_letter(tickets):
    ticket = tickets.issue(PRINCIPAL)
    for other in (ticket.swapcase(), ticket[:-1], f"{ticket}=", f" {ticket}"):
        assert refusal(tickets, other) == "unauthorized"
    assert tickets.redeem(ticket) == PRINCIPAL


def test_a_ticket_is_good_for_a_minute_and_no_longer(backend):
    first, second = backend.tickets.issue(PRINCIPAL), backend.tickets.issue(PRINCIPAL)
    backend.clock.pause(TICKET_TTL_S - 1)
    assert backend.tickets.redeem(first) == PRINCIPAL
    backend.clock.pause(1)
    assert refusal(backend.tickets, second) == "unauthorized"


def test_a_ticket_expires_with_its_token(backend):
    principal = lasting(backend, 10)
    first, second = backend.tickets.issue(principal), backend.tickets.issue(principal)
    backend.clock.pause(9)
    assert backend.tickets.redeem(first) == principal
    backend.clock.pause(1)
    assert refusal(backend.tickets, second) == "unauthorized"


@pytest.mark.parametrize("left_s", [0, -1])
def test_an_expired_token_gets_no_ticket(backend, left_s):
    with pytest.raises(AuthError) as caught:
        backend.tickets.issue(lasting(backend, left_s))
    assert caught.value.reason == "auth_expired"


def test_one_of_many_concurrent_redemptions_of_a_ticket_succeeds(tickets):
    ticket = tickets.issue(PRINCIPAL)

    def redeem(_: int) -> bool:
        try:
            return tickets.redeem(ticket) == PRINCIPAL
        except AuthError:
            return False

    with ThreadPoolExecutor(max_workers=8) as pool:
        assert list(pool.map(redeem, range(16))).count(True) == 1


def test_only_the_tickets_of_that_user_are_voided(tickets):
    mine = [tickets.issue(PRINCIPAL) for _ in range(3)]
    others = [
        replace(PRINCIPAL, user="bob"),
        replace(PRINCIPAL, project="other"),
        replace(PRINCIPAL, tenant="x"),
    ]
    theirs = [(tickets.issue(other), other) for other in others]
    for _ in range(2):
        tickets.void(PRINCIPAL.tenant, PRINCIPAL.project, PRINCIPAL.user)
    assert [refusal(tickets, ticket) for ticket in mine] == ["unauthorized"] * 3
    assert all(tickets.redeem(ticket) == other for ticket, other in theirs)


def stored(aws, ticket: str):
    return aws.table.get(ticket_pk(ticket[:PERSON_CHARS]), ticket_sk(ticket), consistent=True)


def test_voided_tickets_leave_no_rows(aws):
    aws.tickets.issue(PRINCIPAL)
    aws.tickets.void(PRINCIPAL.tenant, PRINCIPAL.project, PRINCIPAL.user)
    pk = ticket_pk(person(PRINCIPAL.tenant, PRINCIPAL.project, PRINCIPAL.user))
    assert not list(aws.table.query("pk = :pk", {":pk": {"S": pk}}))


def test_a_row_names_its_hash_its_end_and_nothing_that_could_be_redeemed(aws):
    ticket = aws.tickets.issue(PRINCIPAL)
    row = stored(aws, ticket)
    assert row["expires_at"] == {"N": str(int(aws.clock.now().timestamp()) + TICKET_TTL_S)}
    assert ticket not in str(row)


def test_an_expired_ticket_is_refused_though_its_row_is_still_stored(aws):
    ticket = aws.tickets.issue(PRINCIPAL)
    aws.clock.pause(TICKET_TTL_S)
    assert stored(aws, ticket) is not None
    assert refusal(aws.tickets, ticket) == "unauthorized"


def test_a_redemption_with_a_lost_response_voids_the_ticket(aws, faults):
    ticket = aws.tickets.issue(PRINCIPAL)
    faults.lose_answers(aws.table.client, "DeleteItem", times=1)
    assert refusal(aws.tickets, ticket) == "unauthorized"


def test_a_silent_store_refuses_no_client_permanently(aws, faults):
    ticket = aws.tickets.issue(PRINCIPAL)
    faults.answer(aws.table.client, "DeleteItem", 400, {"__type": "x#ThrottlingException", "message": "…"})
    with pytest.raises(DependencyError):
        aws.tickets.redeem(ticket)
    faults.close()
    assert aws.tickets.redeem(ticket) == PRINCIPAL
