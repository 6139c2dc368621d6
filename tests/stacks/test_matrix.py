"""The roles of stage prod as they are deployed, compared with the list that people read and agree to."""

from pathlib import Path

import pytest

MATRIX = Path(__file__).parents[1] / "data/roles.txt"


def read_matrix():
    roles, name = {}, ""
    for line in MATRIX.read_text(encoding="utf-8").splitlines():
        if line.startswith("  "):
            roles[name][1].append(line.strip())
        elif line and not line.startswith("#"):
            name, trust = line.split()
            roles[name] = (trust, [])
    return roles


WRITTEN = read_matrix()


def test_every_role_is_on_the_list_with_its_trusted_principal(prod):
    assert {name: trust for name, (trust, _) in WRITTEN.items()} == prod.roles.trusts


@pytest.mark.parametrize("role", WRITTEN)
def test_a_role_is_the_list_statement_by_statement(prod, role):
    assert prod.roles.lines(role) == sorted(WRITTEN[role][1])
