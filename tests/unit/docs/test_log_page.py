import re

from docs.build.log import PATH
from tests.contract.explorer.ablation import ABLATIONS, MASKED
from tests.contract.explorer.call_ablation import CALLS
from tests.contract.explorer.limited_ablation import LIMITED


def test_the_log_page_lists_every_disabled_rule():
    text = PATH.read_text()
    assert [
        one.rule for one in (*ABLATIONS, *LIMITED, *CALLS, *MASKED) if f"| {one.rule} |" not in text
    ] == []


def test_the_log_page_states_each_rule():
    stated = set(re.findall(r"^\| (R\d+) \|", PATH.read_text(), re.MULTILINE))
    assert {one.rule.split()[0] for one in (*ABLATIONS, *LIMITED, *CALLS, *MASKED)} - stated == set()
