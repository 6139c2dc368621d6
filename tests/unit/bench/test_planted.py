"""The planted facts: questions that share no word with their facts but those that carry no meaning."""

from __future__ import annotations

import re

import pytest

from bench.planted import AROUND, ASKED, FACTS, THEMES

WORD = re.compile(r"[^\W_]+")
EMPTY = frozenset(
    WORD.findall("""
    a an the of to in on at by for from with and or but is are was were be been do does did has have had i we you he
    she it they our my your his her its their this that these those which what when where who why how not no can may
    must should would will there here than then so as if only per over before after because while during around does s
    """)
)


def stems(text: str) -> set[str]:
    """Return the first letters of each word that means something; words of one stem count as one."""
    return {word[:5] for word in WORD.findall(text.casefold()) if word not in EMPTY}


@pytest.mark.parametrize(("fact", "question"), FACTS)
def test_a_question_has_no_word_of_its_fact(fact: str, question: str):
    assert stems(fact) & stems(question) == set()


def test_there_are_forty_facts_and_two_hundred_other_statements_each_once():
    assert len(dict(FACTS)) == 40
    said = [text for _, *texts in THEMES for text in texts]
    assert len(said) == len(set(said)) == 200
    assert all("{said}" in text and "{fact}" in text for text in AROUND)
    assert len(ASKED) == 5
