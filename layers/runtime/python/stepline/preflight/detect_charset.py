"""The encoding of a foreign text, found in its bytes, or that it cannot be determined.

UTF-8, a mark, or the text's own declaration is certain. Otherwise each encoding of the web is tried on a sample, and
a reading counts if it looks like human writing: words of one script, letters of one language, no capital within a word.
If one reading is left, it is the text. Of several, the detector's choice is used if the text has enough letters
for a decision; a shorter text remains uncertain, and is refused: a misread text is worse than none.

Runs where foreign files are judged and pages are read, in a process with limits.
Source: encoding.spec.whatwg.org; github.com/chatnoir-eu/chatnoir-resiliparse, "Character Encoding Detection".
"""

# ruff: noqa: RUF001 - letters and signs of many scripts are data here

from __future__ import annotations

import codecs
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Final, NamedTuple

from stepline.model.file.charset import ALIASES, CODECS, UTF_8, WINDOWS, marked_codec

MOSTLY: Final = 0.75
"""The share of letters that are of one language, in a text with some names from elsewhere."""
SAMPLE_BYTES: Final = 6_000
SURE_LETTERS: Final = 24
SURE_CENTRE: Final = 8
SURE_WEST: Final = 6
SURE_EAST: Final = 6
"""The number of letters beyond ASCII from which the detector was never wrong, on 20,000 short texts in 40 encodings: by
default, for an encoding of Central Europe, for Windows-1252, and for an encoding of East Asia."""
_HEAD_BYTES: Final = 1_024
_ABSENT: Final = re.compile(rb"[\x00-\x07\x0e-\x1a\x1c-\x1f]")
"""Bytes that only a text in UTF-16 or UTF-32 has."""
_CONTROL: Final = re.compile(_ABSENT.pattern.decode())
_PRINTED: Final = frozenset((9, 10, 13, *range(0x20, 0x7F)))
_SEQUENCE: Final = re.compile(rb"[\xc2-\xf4][\x80-\xbf]+")
SEQUENCES: Final = 3
_JIS: Final = re.compile(rb"\x1b\$[@B]")
_FOREIGN: Final = re.compile(rb"[\x80-\xff]")
LEAD_BYTES: Final = 200
_DECLARED: Final = (
    re.compile(rb"\A\s{0,99}<\?xml[^>]{0,200}?encoding\s{0,9}=\s{0,9}[\"']([\w.:-]{1,40})"),
    re.compile(rb"<meta[^>]{0,300}?charset\s{0,9}=\s{0,9}[\"']?\s{0,9}([\w.:-]{1,40})", re.IGNORECASE),
)

_WEST: Final = "äöüß àâæçéèêëîïôœùûüÿ áéíñóúüªº ãáâàçéêíóõúüªº àèéìíîòóùúªº ëéèïíóöüêáà åäöéüàáèšž æøåéüäöò þæðöáéíóúý àçéèíïóòúü·"
_CENTRE: Final = "ąćęłńóśźż áčďéěíňóřšťúůýž áäčďéíľňóôšťúýž áéíóöőúüű ăâîșțşţ čćđšž äöüß"
_BALTIC: Final = "ąčęėįšųūž āčēģīķļņšūž äõöüšž"
_TURKISH: Final = "çğıöşüâîûi̇"
_VIETNAMESE: Final = "àáâãèéêìíòóôõùúýăđĩũơưạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ"
_RUSSIAN: Final = "абвгдежзийклмнопрстуфхцчшщъыьэюя"
_CYRILLIC: Final = tuple(
    map(
        frozenset,
        (
            f"{_RUSSIAN}ё",
            "абвгґдеєжзиіїйклмнопрстуфхцчшщьюя",
            "абвгґдеёжзійклмнопрстуўфхцчшыьэюя",
            "абвгдђежзијклљмнњопрстћуфхцчџш",
            "абвгдѓежзѕијклљмнњопрстќуфхцчџшѐѝ",
        ),
    )
)


class _Readings(NamedTuple):
    """Texts, each with the encodings that produce it. `whole`: those all of whose letters are of one language."""

    found: Mapping[str, list[str]]
    whole: frozenset[str]


class _Encoding(NamedTuple):
    """The Latin alphabets that are written in an encoding; a `rival` only makes a reading uncertain."""

    alphabets: tuple[frozenset[str], ...] = ()
    rival: bool = False


def _latin(alphabets: str, *, rival: bool = False) -> _Encoding:
    return _Encoding(tuple(map(frozenset, alphabets.split())), rival)


_ENCODINGS: Final[Mapping[str, _Encoding]] = {
    WINDOWS: _latin(_WEST),
    "iso-8859-15": _latin(_WEST),
    "windows-1250": _latin(_CENTRE),
    "iso-8859-2": _latin(_CENTRE),
    "windows-1254": _latin(_TURKISH),
    "windows-1257": _latin(_BALTIC),
    "iso-8859-13": _latin(_BALTIC),
    "windows-1258": _latin(_VIETNAMESE, rival=True),
    "iso-8859-3": _latin("ĉĝĥĵŝŭ ċġħż", rival=True),
    "iso-8859-4": _latin(_BALTIC, rival=True),
    "iso-8859-10": _latin(_BALTIC, rival=True),
    "iso-8859-14": _latin(_WEST, rival=True),
    "iso-8859-16": _latin(_CENTRE, rival=True),
    "macintosh": _latin(_WEST, rival=True),
    "x-mac-cyrillic": _Encoding(rival=True),
    **dict.fromkeys(
        (
            *("windows-1251", "koi8-r", "koi8-u", "iso-8859-5", "ibm866", "iso-8859-7", "windows-1253"),
            *("windows-1255", "iso-8859-8", "windows-1256", "iso-8859-6", "windows-874"),
            *("shift_jis", "windows-31j", "euc-jp", "gb18030", "big5", "big5-hkscs", "euc-kr"),
        ),
        _Encoding(),
    ),
}
_TURKEY: Final = "windows-1254"
"""Differs from Windows-1252 in six letters, with which Icelandic looks like Turkish."""
_EASTERN: Final = ("shift_jis", "windows-31j", "euc-jp", "gb18030", "big5", "big5-hkscs", "euc-kr")
_SURE: Final = {
    WINDOWS: SURE_WEST,
    **dict.fromkeys(("windows-1250", "iso-8859-2"), SURE_CENTRE),
    **dict.fromkeys(_EASTERN, SURE_EAST),
}
_SECOND: Final = {"windows-31j": "shift_jis", "big5-hkscs": "big5"}
"""Tried if the narrower encoding does not explain the bytes."""
_WIDE: Final = ("utf-16le", "utf-16be", "utf-32le", "utf-32be")
_OBSCURE: Final = frozenset({"windows-1257", "iso-8859-13"})
"""Encodings that, like the rivals, leave no doubt if the detector names Windows-1252."""
_NAMED: Final = {
    **{codecs.lookup(codec).name: label for label, codec in reversed(list(CODECS.items()))},
    **dict.fromkeys(("ascii", "iso8859-1"), WINDOWS),
    "iso8859-9": "windows-1254",
    **dict.fromkeys(("iso8859-11", "tis-620"), "windows-874"),
    **dict.fromkeys(("gbk", "gb2312"), "gb18030"),
    **dict.fromkeys(("euc_kr", "uhc"), "euc-kr"),
}
"""Encodings by the name of their codec, as the detector and the web's labels have it."""

_SIGNS: Final = frozenset("€‚„…‘’“”•–—™«»©®°§±²³·×¿¡£¥½¼¾№\xa0‹›µ‐−־׀׃׳״،؛؟٪ـ฿\u200c\u200d\u200e\u200f")
_WORD: Final = re.compile(r"[^\W\d_]+")
_GLUED: Final = re.compile(
    r"[^\W\d_][€‚„•™©®°§±²³×¿¡£¥½¼¾№µ‹›][^\W\d_]|(?<![\d \xa0])[°²³½¼¾±£¥µ]|[£¥](?!\d)|€(?=[a-z])|[°²³½¼¾](?=[^\W\d_])"
)
"""Signs in positions where no text has them: letters of another reading."""
_LOOSE: Final = re.compile(
    "(?<![\u0620-\u0652])[\u064b-\u0652]|(?<![\u0e01-\u0e4e])[\u0e31\u0e34-\u0e3a\u0e47-\u0e4e]|(?<![\u05b0-\u05ea])[\u05b0-\u05bd]"
)
"""Marks of Arabic, Thai and Hebrew without the letter that they belong to."""
_CROWDED: Final = re.compile("[À-ɏ]{5}")
"""Such letters in a row, more than a word of any Latin alphabet has."""
_EAST: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_HALVES: Final = re.compile("[\uff61-\uff9f]+")
_EASTERN_SCRIPTS: Final = frozenset(
    ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "KATAKANA-HIRAGANA", "IDEOGRAPHIC", "FULLWIDTH", "HALFWIDTH")
)
_MIXED: Final = frozenset({"HEBREW", "ARABIC", "THAI"})
"""Scripts to which a prefix or an ending of Latin capitals is joined."""


def detect_charset(data: bytes, *, declared: str = "") -> str | None:
    """Return the encoding of a text, "" for UTF-8 and for a text that begins with a mark; None if it cannot be determined.

    `declared` is an encoding that accompanies the text, by its name on the web. The whole text can be decoded by the result.
    """
    if codec := marked_codec(data):
        return "" if _decodes(data, codec) else None
    if _JIS.search(data) and _decodes(data, CODECS["iso-2022-jp"]):
        return "iso-2022-jp"
    if stated := _stated(data, declared):
        return stated
    if _ABSENT.search(data):
        return _wide(data)
    if _decodes(data, "utf-8"):
        return ""
    return _wide(data) if find_label(declared) in _WIDE else _decide(_readings(_sample(data)), data) or None


def _stated(data: bytes, declared: str) -> str:
    """Return the declared encoding of one or more bytes a character if it decodes the whole text; "" without one."""
    for label in map(find_label, (declared, *find_declarations(data))):
        readable = label not in ("", UTF_8, *_WIDE) and _decodes(data, CODECS[label])
        if readable and not _is_plainly_utf8(data):
            return label
    return ""


def find_label(name: str) -> str:
    """Return the encoding that the web means by a name; "" for an unknown one, such as a codec of Python."""
    name = name.strip().lower()
    if name in ALIASES:
        return WINDOWS
    if not name or not name.isascii():
        return ""
    from resiliparse.parse.encoding import map_encoding_to_html5  # noqa: PLC0415 - few texts need it

    codec = map_encoding_to_html5(name, fallback_utf8=False)
    return _NAMED.get(codecs.lookup(codec).name, "") if codec else ""


def find_declarations(data: bytes) -> Iterator[str]:
    """Yield the encodings that an XML declaration and a page's head name."""
    for pattern in _DECLARED:
        if found := pattern.search(data[:_HEAD_BYTES]):
            yield found[1].decode("ascii", "replace")


def _is_plainly_utf8(data: bytes) -> bool:
    """Return True for too much UTF-8 to be an accident: servers and editors often declare another encoding than they write."""
    return len(_SEQUENCE.findall(data, 0, SAMPLE_BYTES)) >= SEQUENCES and _decodes(data, "utf-8")


def _decodes(data: bytes, codec: str) -> bool:
    try:
        data.decode(codec)
    except UnicodeDecodeError:
        return False
    return True


def _wide(data: bytes) -> str | None:
    """Return the encoding of two or four bytes a character that decodes bytes without a mark."""
    found = []
    for label in _WIDE:
        unit = int(label[4:6]) // 8
        if len(data) % unit or not _decodes(data, CODECS[label]):
            continue
        text = data[: SAMPLE_BYTES * unit].decode(CODECS[label], "ignore")
        is_text = re.search(r"[\n -~]", text) and not _CONTROL.search(text) and not _is_narrow(text)
        letters = _letters_of(text) if is_text else None
        if letters is not None and _is_of(letters, _all_alphabets(), 0.0):
            found.append(label)
    return found[0] if len(found) == 1 else None


def _is_narrow(text: str) -> bool:
    """Return True if half of a text are pairs of ASCII characters read as one: it contains a zero byte by accident."""
    pairs = sum(ord(char) >> 8 in _PRINTED and ord(char) & 0xFF in _PRINTED for char in text)
    return 2 * pairs >= len(text)


def _sample(data: bytes) -> bytes:
    """Return lines that are not ASCII, each once, up to a size; a long one from shortly before its first such byte.

    The bytes before that byte in its line are ASCII, so no character is cut at the beginning.
    """
    lines: dict[bytes, None] = {}
    size = at = 0
    while size < SAMPLE_BYTES and (found := _FOREIGN.search(data, at)):
        begin = max(at, found.start() - LEAD_BYTES, data.rfind(b"\n", at, found.start()) + 1)
        end = data.find(b"\n", found.start())
        at = len(data) if end < 0 else end + 1
        line = data[begin : min(at, begin + SAMPLE_BYTES)]
        size += 0 if line in lines else len(line)
        lines[line] = None
    return b"\n".join(lines)


def _readings(sample: bytes) -> _Readings:
    """Return the plausible readings of a sample: most letters of one language, or else all of several."""
    texts: dict[str, str] = {}
    for label in _ENCODINGS:
        decoder = codecs.getincrementaldecoder(CODECS[label])()
        try:
            texts[label] = decoder.decode(sample)  # the end of a sample may be half a character
        except UnicodeDecodeError:
            continue
    if len(sample) % 2 == 0 and len(sample) <= SURE_LETTERS:
        for label in ("utf-16le", "utf-16be"):
            texts[label] = sample.decode(CODECS[label], "replace")
    counts = {text: _letters_of(text) for text in set(texts.values())}
    found: dict[float, dict[str, list[str]]] = {}
    for share in (1.0, MOSTLY, 0.0):
        found[share] = {}
        for label, text in texts.items():
            alphabets = _ENCODINGS[label].alphabets if label in _ENCODINGS else ()
            if (letters := counts[text]) is not None and _is_of(letters, alphabets, share):
                found[share].setdefault(text, []).append(label)
    return _Readings(found[MOSTLY] or found[0.0], whole=frozenset(found[1.0]))


def _decide(readings: _Readings, data: bytes) -> str:
    """Return the encoding of the one correct reading that decodes the whole text; "" if that is uncertain."""
    found = _choose(readings, data)
    wider = (wide for wide, narrow in _SECOND.items() if narrow == found)
    return next((label for label in (found, *wider) if label and _decodes(data, CODECS[label])), "")


def _choose(readings: _Readings, data: bytes) -> str:
    found, whole = readings
    if len(found) == len(whole) == 1:
        (labels,) = found.values()
        return next((label for label in labels if not _is_rival(label)), "")
    named = _detect(data)
    text = next((text for text, labels in found.items() if named in labels), "")
    if not text or _is_rival(named):
        return ""
    others = {label for other, labels in found.items() if other != text for label in labels}
    if named == WINDOWS and all(label in _OBSCURE or _is_rival(label) for label in others):
        return named
    if whole == {text}:
        return named
    letters = sum(char.isalpha() and not char.isascii() for char in text)
    sure = SURE_LETTERS if _TURKEY in others else _SURE.get(named, SURE_LETTERS)
    return named if letters >= sure else ""


def _is_rival(label: str) -> bool:
    return label not in _ENCODINGS or _ENCODINGS[label].rival


def _detect(data: bytes) -> str:
    from resiliparse.parse.encoding import detect_encoding  # noqa: PLC0415 - few texts need it

    found: str = detect_encoding(_sample(data), html5_compatible=False) or ""
    try:
        return _NAMED.get(codecs.lookup(found).name, "")
    except LookupError:
        return _NAMED.get(found.lower(), "")


def _letters_of(text: str) -> Counter[str] | None:
    """Return the letters beyond ASCII of a reading that may be a text; None for any other."""
    letters: Counter[str] = Counter()
    for char in text:
        if char.isascii():
            continue
        if unicodedata.category(char)[0] in "LM":
            letters[unicodedata.normalize("NFC", char.lower())[0]] += 1
        elif char not in _SIGNS and _script(char) != "EAST":
            return None
    if _GLUED.search(text) or _LOOSE.search(text) or _is_unclosed(text) or not _is_eastern(text):
        return None
    return letters if all(map(_is_word, set(_WORD.findall(text)))) else None


def _is_of(letters: Counter[str], alphabets: Collection[frozenset[str]], share: float) -> bool:
    """Return True if a share of the Latin letters is of one alphabet, and likewise of the Cyrillic; for 0, if all are of some."""
    for scripts, known in (({"LATIN", "FEMININE", "MASCULINE"}, alphabets), ({"CYRILLIC"}, _CYRILLIC)):
        counts = {char: count for char, count in letters.items() if _script(char) in scripts}
        if not _is_covered(counts, known, share):
            return False
    return True


def _is_covered(counts: Mapping[str, int], alphabets: Collection[frozenset[str]], share: float) -> bool:
    if not share:
        return counts.keys() <= frozenset().union(*alphabets)
    most = max((sum(counts.get(char, 0) for char in one) for one in alphabets), default=0)
    return most >= share * sum(counts.values())


def _is_unclosed(text: str) -> bool:
    """Return True if quotes open that are never closed: letters of another reading."""
    opened, low = text.count("‘"), text.count("‚")
    unpaired = any(text.count(one) != text.count(other) for one, other in ("‹›", "«»"))
    return unpaired or opened > text.count("’") + low or low > opened + text.count("’")


@cache
def _is_word(word: str) -> bool:
    """Return True for letters of one script without a capital after a small one."""
    if word.isascii():
        return True
    scripts = {_script(char) for char in word if unicodedata.category(char)[0] == "L"} - {
        "FEMININE",
        "MASCULINE",
    }
    if scripts & _MIXED and not any(char.isascii() and char.islower() for char in word):
        scripts.discard("LATIN")
    if len(scripts) > 1 and scripts != {"EAST", "LATIN"}:
        return False
    return not _CROWDED.search(word) and not _has_inner_capital(word)


def _has_inner_capital(word: str) -> bool:
    small = False
    for char in word:
        if small and char.isupper():
            return True
        small = small or char.islower()
    return False


def _is_eastern(text: str) -> bool:
    """Return False for characters of East Asia that are pieces of a Latin word, or halves alone."""
    runs = list(_EAST.finditer(text))
    if runs and all(
        len(run[0]) == 1
        and (
            text[max(0, run.start() - 1) : run.start()].islower() or text[run.end() : run.end() + 1].islower()
        )
        for run in runs
    ):
        return False
    halves = [len(found[0]) for found in _HALVES.finditer(text)]
    return not halves or (bool(runs) and min(halves) > 1)


@cache
def _script(char: str) -> str:
    name = unicodedata.name(char, "?").partition(" ")[0]
    is_eastern = name in _EASTERN_SCRIPTS or "\u3000" <= char < "\u3040" or "\uff00" <= char < "\ufff0"
    return "EAST" if is_eastern else name


@cache
def _all_alphabets() -> tuple[frozenset[str], ...]:
    return tuple(one for row in _ENCODINGS.values() for one in row.alphabets)
