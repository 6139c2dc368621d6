"""Texts of many languages in the encodings of the world: read as they were written, or refused, and never misread."""

# ruff: noqa: RUF001 - letters of many scripts are data here

from __future__ import annotations

import codecs
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.model.file.charset import CODECS
from stepline.model.file.file_verdict import FileLimits
from stepline.preflight.detect_charset import detect_charset
from stepline.preflight.judge_file import judge_file
from stepline.tools.window import decode_pieces

TEXTS = {
    "German": "Die Größe der Stücke wächst jährlich; für die Übergabe prüfen wir alles möglichst früh, schließlich zählt es.",
    "French": "L’été dernier, nous avons été reçus à l’hôtel où le maître préparait un gâteau très léger, ça va de soi.",
    "Spanish": "El niño pequeño soñó con una montaña; ¿qué pasó después? Mañana llegará la señora del corazón más cálido.",
    "Portuguese": "A situação não é fácil: as ações caíram, então o irmão pôs três opções à disposição da população.",
    "Italian": "Perché la città è così bella? La qualità del caffè è più alta, però l’università aprirà lunedì.",
    "Swedish": "Älgen åt äpplen på ängen när båten låg vid bryggan och östra vägen var översvämmad.",
    "Danish": "Å, blåbærgrøden på bordet er kølig, og børnene får både fløde og æbler før de går på skøjter.",
    "Polish": "Zażółć gęślą jaźń; książę chętnie śpiewał pieśń, gdyż świeciło słońce i płynęła rzeka źródlana.",
    "Czech": "Příliš žluťoučký kůň úpěl ďábelské ódy, protože měl těžký náklad a cesta byla čím dál delší.",
    "Hungarian": "Árvíztűrő tükörfúrógép őrzi a büszke fővárost, ahol éjjel süvöltő hűvös szél fúj és esőt hoz.",
    "Turkish": "Şoför çalışırken güneşli bir gün doğdu; ağaçların gölgesinde çocuklar için sığınak yapıldı.",
    "Lithuanian": "Įlinkdama fechtuotojo špaga sublykčiojusi pragręžė apvalų arbūzą, žmonės džiaugėsi šiąnakt.",
    "Greek": "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία, όταν οι άνθρωποι διαβάζουν κάθε μέρα τις εφημερίδες της χώρας.",
    "Russian": "Съешь же ещё этих мягких французских булок, да выпей чаю; завтра утром мы поедем в большой город.",
    "Ukrainian": "Жебракують філософи при ґанку церкви в Гадячі, ще й шатро їхнє п’яне знаємо; сьогодні йде дощ.",
    "Bulgarian": "Жълтата дюля беше щастлива, че пухът, който цъфна, замръзна като гьон през тази дълга зима.",
    "Hebrew": "דג סקרן שט בים מאוכזב ולפתע מצא חברה; בכל בוקר אנחנו קוראים עיתון ושותים קפה בגינה של הבית.",
    "Arabic": "نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر ومغلف بجلد أزرق في مدينة كبيرة جدا.",
    "Thai": "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า กว่าบรรดาฝูงสัตว์เดรัจฉาน จงฝ่าฟันพัฒนาวิชาการ อย่าล้างผลาญฤๅเข่นฆ่าบีฑาใคร",
    "Japanese": "色は匂へど散りぬるを、我が世誰ぞ常ならむ。 今日は天気がいいので、友達と一緒に公園へ行きました。 カタカナも読みます。",
    "Simplified Chinese": "今天的天气非常好， 我们打算去公园散步。 请把这个文件保存到您的电脑上， 然后告诉我结果。",
    "Traditional Chinese": "今天的天氣非常好， 我們打算去公園散步。 請把這個檔案儲存到您的電腦上， 然後告訴我結果。",
    "Korean": "오늘은 날씨가 매우 좋아서 우리는 공원에 산책하러 갑니다. 이 파일을 컴퓨터에 저장하고 결과를 알려 주세요.",
}
WEST = ("German", "French", "Spanish", "Portuguese", "Italian", "Swedish", "Danish")
CENTRE = ("Polish", "Czech", "Hungarian")
WRITTEN = {
    **dict.fromkeys(("cp1252", "iso-8859-1", "iso-8859-15"), WEST),
    **dict.fromkeys(("cp1250", "iso-8859-2"), CENTRE),
    **dict.fromkeys(("cp1254", "iso-8859-9"), ("Turkish",)),
    **dict.fromkeys(("cp1257", "iso-8859-13"), ("Lithuanian",)),
    **dict.fromkeys(("cp1253", "iso-8859-7"), ("Greek",)),
    **dict.fromkeys(("cp1251",), ("Russian", "Ukrainian", "Bulgarian")),
    **dict.fromkeys(("koi8-r", "cp866", "iso-8859-5"), ("Russian", "Bulgarian")),
    "koi8-u": ("Ukrainian",),
    **dict.fromkeys(("cp1255", "iso-8859-8"), ("Hebrew",)),
    **dict.fromkeys(("cp1256", "iso-8859-6"), ("Arabic",)),
    "cp874": ("Thai",),
    **dict.fromkeys(("shift_jis", "cp932", "euc-jp", "iso-2022-jp"), ("Japanese",)),
    **dict.fromkeys(("gb18030", "gbk"), ("Simplified Chinese",)),
    **dict.fromkeys(("big5", "cp950"), ("Traditional Chinese",)),
    **dict.fromkeys(("euc-kr", "cp949"), ("Korean",)),
}
UNICODE = {
    "UTF-8": ("utf-8", b""),
    "UTF-8 with a mark": ("utf-8", codecs.BOM_UTF8),
    "UTF-16LE with a mark": ("utf-16-le", codecs.BOM_UTF16_LE),
    "UTF-16BE with a mark": ("utf-16-be", codecs.BOM_UTF16_BE),
    "UTF-32LE with a mark": ("utf-32-le", codecs.BOM_UTF32_LE),
    "UTF-32BE with a mark": ("utf-32-be", codecs.BOM_UTF32_BE),
    "UTF-16LE": ("utf-16-le", b""),
    "UTF-16BE": ("utf-16-be", b""),
    "UTF-32LE": ("utf-32-le", b""),
    "UTF-32BE": ("utf-32-be", b""),
}
CASES = [(codec, language) for codec, languages in WRITTEN.items() for language in languages]


@pytest.fixture
def read(tmp_path: Path):
    """Return the text that is read of an uploaded file; None if it is refused by name."""

    def run(data: bytes) -> str | None:
        path = tmp_path / "a.txt"
        path.write_bytes(data)
        verdict = judge_file(path, filename="a.txt", mime="text/plain", limits=FileLimits())
        if not verdict.accepted:
            assert verdict.reasons in (("text_undecodable",), ("text_binary",))
            return None
        return "".join(decode_pieces([data], verdict.charset or "utf-8-sig"))

    return run


def written(codec: str, language: str) -> str:
    """Return the text with what the encoding has no character for left out."""
    return TEXTS[language].encode(codec, "ignore").decode(codec)


@pytest.mark.parametrize(("codec", "language"), CASES)
def test_a_text_of_some_length_is_decoded_correctly(read, codec: str, language: str) -> None:
    text = f"{written(codec, language)}\r\n" * 2
    assert read(text.encode(codec)) == text


@pytest.mark.parametrize(("codec", "language"), CASES)
def test_a_piece_of_a_text_is_decoded_correctly_or_refused(read, codec: str, language: str) -> None:
    words = written(codec, language).split(" ")
    pieces = [" ".join(words[at : at + many]) for at in range(len(words)) for many in (1, 3, 8)]
    misread = [(piece, got) for piece in pieces if (got := read(piece.encode(codec))) not in (piece, None)]
    assert misread == []


@pytest.mark.parametrize(("codec", "mark"), UNICODE.values(), ids=UNICODE)
@pytest.mark.parametrize("language", TEXTS)
def test_unicode_is_read_with_and_without_a_mark(read, language: str, codec: str, mark: bytes) -> None:
    text = f"{TEXTS[language]}\n{language};12,50 €\n"
    assert read(mark + text.encode(codec)) == text


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "utf-32-le"])
@pytest.mark.parametrize("language", TEXTS)
def test_short_unicode_without_a_mark_is_never_misread(read, language: str, codec: str) -> None:
    for word in TEXTS[language].split(" "):
        assert read(word.encode(codec)) in (word, None)


DECLARED = {
    "XML": '<?xml version="1.0" encoding="{}"?><a>ß{}</a>',
    "HTML": "<!doctype html><meta charset={}><p>ß{}</p>",
}


@given(st.text("month,tons 1234\n", min_size=3, max_size=80), st.data())
def test_a_zero_byte_in_ascii_is_not_read_as_wide_characters(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    assert detect_charset(f"{text[:at]}\0{text[at:]}".encode()) is None


@pytest.mark.parametrize("form", DECLARED.values(), ids=DECLARED)
@pytest.mark.parametrize(
    ("name", "letter"), [("iso-8859-2", "ş"), ("windows-1252", "º"), ("windows-1257", "ŗ")]
)
def test_a_text_s_own_declaration_is_believed(read, form: str, name: str, letter: str) -> None:
    text = form.format(name, letter)
    assert read(text.encode(name)) == text


@pytest.mark.parametrize(
    "name", ["idna", "undefined", "punycode", "utf-7", "unicode_escape", "base64", "rot13", "none"]
)
def test_a_codec_that_the_web_does_not_know_is_never_used(read, name: str) -> None:
    text = f'<?xml version="1.0" encoding="{name}"?><a>+AGE- größer</a>'
    assert read(text.encode()) == text


@pytest.mark.parametrize("before", ["a" * 4_000_000 + " ", "a\n" * 2_000_000, "word " * 800_000 + "\n"])
@pytest.mark.parametrize(
    ("codec", "language"), [("cp1251", "Russian"), ("shift_jis", "Japanese"), ("big5", "Traditional Chinese")]
)
def test_a_character_deep_in_a_text_is_found(read, codec: str, language: str, before: str) -> None:
    text = before + written(codec, language) * 3
    assert read(text.encode(codec)) == text


def test_every_encoding_that_can_be_recorded_can_be_read() -> None:
    assert [label for label, codec in CODECS.items() if b"".decode(codec) != ""] == []


@pytest.mark.parametrize(
    "data",
    [
        bytes(range(128, 256)) * 4,
        b"\xff\xfe\x00\xd8",
        "größer".encode() + b"\xff" + "Stück".encode(),
        b"a\xe9\x00b",
    ],
)
def test_bytes_that_are_no_text_are_refused(read, data: bytes) -> None:
    assert read(data) is None
