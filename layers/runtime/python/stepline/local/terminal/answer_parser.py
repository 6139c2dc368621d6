"""The parser of answers as models write them: emphasis next to scripts without blanks, and formulas with their marks.

Source: https://github.com/tats-u/markdown-cjk-friendly (specification.md); a twin of `executor/documents/parser.py`,
which imports no package of ours; markdown-it-py, "Parser plugins".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from unicodedata import category, east_asian_width

from markdown_it import MarkdownIt
from markdown_it.parser_inline import ParserInline
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.state_inline import Scanned

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from markdown_it.token import Token

_UNSPACED: Final = re.compile("[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u1100-\u11ff]")
"""Thai, Lao, Tibetan, Burmese, Khmer and the parts of Hangul; other scripts are recognized by their width."""
_FORMULA: Final = re.compile(
    r"\\\((?:[^\\`]|\\(?![()\[\]]).)+?\\\)|\\\[(?:[^\\`]|\\(?![()\[\]]).)+?\\\]", re.DOTALL
)
_SIGN: Final = re.compile(r"[\\^_=+<>|{}\d]")
_PROSE: Final = re.compile(r"[^\W\d_]{3}|[^\W\d_]{2}\s|\s[^\W\d_]{2}|[^\x00-\u2fff]")


class _State(StateInline):
    def scanDelims(self, start: int, canSplitWord: bool) -> Scanned:  # noqa: N802, N803 - the library's
        """Scan delimiters; between a punctuation mark and a blank or unspaced script, they belong to the mark."""
        scanned = super().scanDelims(start, canSplitWord)
        end = start + scanned.length
        before = self.src[start - 1] if start else " "
        after = self.src[end] if end < self.posMax else " "
        if not (_is_unspaced(before) or _is_unspaced(after)):
            return scanned
        left, right = _flanks(after, before), _flanks(before, after)
        opens = left and (canSplitWord or not right or _is_punctuation(before))
        closes = right and (canSplitWord or not left or _is_punctuation(after))
        return Scanned(opens, closes, scanned.length)


class _Inline(ParserInline):
    def parse(
        self, src: str, md: MarkdownIt, env: MutableMapping[str, object], tokens: list[Token]
    ) -> list[Token]:
        state = _State(src, md, env, tokens)
        self.tokenize(state)
        for rule in self.ruler2.getRules(""):
            rule(state)
        return state.tokens


def make_parser(options: Mapping[str, Any] | None = None, *, enable: Sequence[str] = ()) -> MarkdownIt:
    """Return a CommonMark parser with these rules and our own."""
    parser = MarkdownIt()
    parser.inline = _Inline()
    parser.configure("commonmark", options)
    parser.enable(list(enable))
    parser.inline.ruler.before("escape", "formula", _keep_formula)
    return parser


def _keep_formula(state: StateInline, silent: bool) -> bool:
    found = _FORMULA.match(state.src, state.pos, state.posMax)
    if found is None or not _is_formula(found[0][2:-2]):
        return False
    if not silent:
        state.push("text", "", 0).content = found[0]
    state.pos = found.end()
    return True


def _is_formula(tex: str) -> bool:
    return bool(tex.strip() and (_SIGN.search(tex) or not _PROSE.search(tex)))


def _flanks(near: str, far: str) -> bool:
    """Return whether delimiters between the two belong to the text beyond `near`."""
    if near.isspace():
        return False
    if _is_unspaced(near) or not _is_punctuation(near):
        return True
    return far.isspace() or _is_unspaced(far) or _is_punctuation(far)


def _is_unspaced(char: str) -> bool:
    wide = east_asian_width(char) in ("W", "F", "H") and category(char) != "So"
    return (wide and not char.isspace()) or bool(_UNSPACED.match(char))


def _is_punctuation(char: str) -> bool:
    return category(char)[0] in "PS"
