"""Regular expressions mean the same on every Python that is supported."""

import ast

import pytest

from tests.repository.expression import all_calls, is_possessive, library_expressions


def test_every_expression_means_the_same_on_every_python():
    # Python 3.11.2, which Debian 12 brings, takes more with a possessive group than it matches.
    assert not [one.name for one in library_expressions() if is_possessive(one.pattern, one.flags)]


def test_an_expression_outside_of_the_library_does_so_too():
    written = {
        place: call.args[0].value
        for place, call in all_calls()
        if call.args and isinstance(call.args[0], ast.Constant)
    }
    assert not [place for place, pattern in written.items() if is_possessive(pattern)]


@pytest.mark.parametrize("pattern", ["a*+", "(?:ab)++c", "x(?>ab|a)", "[a-z]{2,3}+", "(?:(?=a?+)b)"])
def test_a_possessive_expression_is_found(pattern):
    assert is_possessive(pattern)
