"""Identity: only a refusal counts as one, and a token is signed anew with its own claims."""

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from stepline.local.proof.proof_row import NotHeldError
from stepline.local.proof.row.access_rows import judge_opened, judge_refused, sign_anew

GOOD = {"websocket": 101, "http": 200}


@pytest.mark.parametrize("door", ["websocket", "http"])
@pytest.mark.parametrize("status", [101, 200, 302, 404, 500])
def test_a_refusal_is_a_401_or_a_403_of_both_entry_points(door, status):
    judge_refused({"websocket": 401, "http": 403})
    with pytest.raises(NotHeldError):
        judge_refused({"websocket": 401, "http": 401, door: status})


@pytest.mark.parametrize("door", ["websocket", "http"])
def test_a_token_of_the_user_opens_both_entry_points(door):
    judge_opened(GOOD)
    with pytest.raises(NotHeldError):
        judge_opened({**GOOD, door: 403})


def test_a_foreign_token_differs_in_its_signature_alone():
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    token = jwt.encode({"sub": "ada", "aud": "stepline"}, key, algorithm="RS256", headers={"kid": "local"})
    made = sign_anew(token)
    assert jwt.get_unverified_header(made) == jwt.get_unverified_header(token)
    assert jwt.decode(token, key.public_key(), algorithms=["RS256"], audience="stepline")["sub"] == "ada"
    with pytest.raises(jwt.InvalidSignatureError):
        jwt.decode(made, key.public_key(), algorithms=["RS256"], audience="stepline")
