"""A smoke test: one turn over the deployed websocket, with a temporary user."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from stepline.adapters.system import SystemClock
from stepline.errors import DependencyError
from stepline.local.client.change import Effect, Refused, TurnEnded
from stepline.local.client.session import Session
from stepline.local.client.state import ClientState
from stepline.local.client.websocket import dial_gateway
from stepline.local.cloud.account import Account, error_code
from stepline.local.conversation import ask, new_conversation
from stepline.local.stage.emulator import Progress

QUESTION: Final = "Answer with one word."
TENANT: Final = "smoke"
PROJECT: Final = "smoke"
PATIENCE_S: Final = 300.0
"""Long enough for a cold start of everything, a turn of one round, and retries of an overloaded model."""


class Deadline(SystemClock):
    """A clock that raises once its time is up."""

    def __init__(self, patience_s: float) -> None:
        """Start the countdown."""
        self._patience_s = patience_s
        self._until_s = super().monotonic_s() + patience_s

    def monotonic_s(self) -> float:
        """Return the time. Raises DependencyError `no_answer` after the deadline."""
        now_s = super().monotonic_s()
        if now_s > self._until_s:
            raise DependencyError(f"no answer within {self._patience_s:.0f} s", code="no_answer")
        return now_s


def try_turn(url: str, token: str, *, patience_s: float = PATIENCE_S) -> str:
    """Run one turn and return its answer.

    Raises:
        AuthError: the token does not open the websocket.
        DependencyError: `smoke_failed`, the turn did not complete; `no_answer`; `socket_unreachable`.
    """
    ends: list[TurnEnded | Refused] = []

    def note(effect: Effect) -> None:
        if isinstance(effect, TurnEnded | Refused):
            ends.append(effect)

    state = ClientState(conversation=new_conversation())
    with Session(dial_gateway(url, lambda: token), state, Deadline(patience_s)) as session:
        completed = ask(session, session.effects(), QUESTION, note)
    match ends[-1]:
        case TurnEnded(answer=answer) if completed:
            return answer
        case TurnEnded(code=code, message=message):
            raise DependencyError(f"the turn failed ({code}): {message}", code="smoke_failed")
        case Refused(frame=frame):
            raise DependencyError(
                f"the message was refused ({frame.code}): {frame.message}", code="smoke_failed"
            )


@contextmanager
def lent_token(account: Account, outputs: Mapping[str, str], say: Progress) -> Iterator[str]:
    """Yield an ID token of a temporary user in the stage's pool; always delete the user afterwards.

    If AWS does not delete the user, `say` gets the command that does.

    Raises:
        DependencyError: `smoke_failed`, the pool refuses the user or cannot be reached.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    cognito = account.client("cognito-idp")
    pool, client_id = outputs["UserPoolId"], outputs["UserPoolClientId"]
    name = f"smoke-{secrets.token_hex(8)}@stepline.invalid"
    try:
        try:
            token = _sign_in(cognito, pool, client_id, name)
        except (BotoCoreError, ClientError) as error:
            raise DependencyError(f"the user pool gave no token: {error}", code="smoke_failed") from error
        yield token
    finally:
        try:
            cognito.admin_delete_user(UserPoolId=pool, Username=name)
        except (BotoCoreError, ClientError) as error:
            if not (isinstance(error, ClientError) and error_code(error) == "UserNotFoundException"):
                # Raising would hide the reason why the turn failed.
                say(
                    f"the temporary user was not deleted ({error}): delete it with"
                    f" aws cognito-idp admin-delete-user --region {account.region} --user-pool-id {pool}"
                    f" --username {name}"
                )


def _sign_in(cognito: Any, pool: str, client_id: str, name: str) -> str:
    """Create a user and return their ID token, which carries tenant and project."""
    first, password = _make_password(), _make_password()
    facts = {
        "email": name,
        "email_verified": "true",
        "custom:tenant": TENANT,
        "custom:project": PROJECT,
    }
    cognito.admin_create_user(
        UserPoolId=pool,
        Username=name,
        TemporaryPassword=first,
        MessageAction="SUPPRESS",
        UserAttributes=[{"Name": key, "Value": value} for key, value in facts.items()],
    )
    cognito.admin_set_user_password(UserPoolId=pool, Username=name, Password=password, Permanent=True)
    answer = cognito.admin_initiate_auth(
        UserPoolId=pool,
        ClientId=client_id,
        AuthFlow="ADMIN_USER_PASSWORD_AUTH",
        AuthParameters={"USERNAME": name, "PASSWORD": password},
    )
    if "AuthenticationResult" not in answer:
        raise DependencyError(
            f"the user pool needs more than a password ({answer.get('ChallengeName')})",
            code="smoke_failed",
        )
    return str(answer["AuthenticationResult"]["IdToken"])


def _make_password() -> str:
    """Return a password with one character of every class that a policy may require."""
    return f"{secrets.token_urlsafe(32)}aA1!"
