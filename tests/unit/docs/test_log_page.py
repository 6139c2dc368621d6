import re

from tests.contract.explorer.ablation import ABLATIONS, MASKED
from tests.unit.docs import log_page


def test_the_page_lists_every_rule_that_is_taken_back():
    text = log_page.PAGE.read_text()
    assert [one.rule for one in (*ABLATIONS, *MASKED) if f"| {one.rule} |" not in text] == []
    assert text == log_page.render(text), "run: python -m tests.unit.docs"


def test_the_page_says_what_each_rule_is():
    stated = set(re.findall(r"^\| (R\d+) \|", log_page.PAGE.read_text(), re.MULTILINE))
    assert {one.rule.split()[0] for one in (*ABLATIONS, *MASKED)} - stated == set()
