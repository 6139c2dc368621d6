"""Hostile answers, messages and files on the chat page: nothing runs, nothing is asked for, and all of it can be read."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.e2e.page.stranger import MARK, Witness, a_stranger
from tests.e2e.stage import a_word
from tests.support.generation import answered, called, coded

pytestmark = pytest.mark.emulator

RUN = f"console.log('{MARK}')"
RLO, PDI, ZWSP = "\u202e", "\u2069", "\u200b"
LINKS = [
    "javascript:{run}",
    "JaVaScRiPt:{run}",
    "javascript&colon;{run}",
    "&#106;avascript:{run}",
    "&#x6A;&#x61;vascript&#58;{run}",
    "java&Tab;script:{run}",
    "java&NewLine;script:{run}",
    "&#1;javascript:{run}",
    "vbscript:{run}",
    "data:text/html,<script>{run}</script>",
    "data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==",
    "blob:{site}/x",
    "file:///etc/passwd",
    "view-source:{site}/",
    "//{host}/protocol-relative",
    "\\\\\\\\{host}\\\\share",
    "/%2e%2e/api",
]
ANSWER = """# {word} begins
<script>{run}</script>
<img src="{site}/img" onerror="{run}">
<svg onload="{run}"><script>{run}</script><animate onbegin="{run}" attributeName="x" dur="1s"/></svg>
<iframe srcdoc="<script>{run}</script>" src="{site}/frame"></iframe>
<style>@import "{site}/css"; body {{ background: url({site}/css-url); display: none }}</style>
<link rel="prefetch" href="{site}/prefetch"><link rel="preconnect" href="{site}"><base href="{site}/">
<meta http-equiv="refresh" content="0;url={site}/refresh">
<form action="{site}/form"><button formaction="javascript:{run}">go</button></form>
<details open ontoggle="{run}"><math href="javascript:{run}">x</math></details>

![a picture]({site}/picture "title") ![][ref] <{site}/auto> <javascript:{run}>

[ref]: {site}/reference-picture

{links}

```html"><script>{run}</script>
<script>{run}</script>
```

| a | <img src=x onerror="{run}"> |
|---|---|
| `<b onclick={run}>` | [x](javascript:{run}) |

safe{rlo}gpj.exe {zwsp} &lt;script&gt; &amp; \\u0000 [{rlo}moc.live](https://example.org/{rlo}x)

{word} ends
"""
FILES_CODE = """
import pathlib, struct, zlib
out = pathlib.Path("outputs")
out.mkdir(exist_ok=True)
(out / "line.txt").write_text("x" * 1_000_000 + " end-of-line")
(out / "rows.csv").write_text("n,what\\n" + "".join({row!r} % n for n in range(10_000)))
(out / "rows.md").write_text("| n | what |\\n|---|---|\\n" + "".join(f"| {{n}} | <b>row {{n}}</b> |\\n" for n in range(10_000)))
(out / "page.html").write_text({html!r})
(out / "drawing.svg").write_text({svg!r})
"""
HTML = """<!doctype html><base href="{site}/"><meta http-equiv="refresh" content="0;url={site}/refresh">
<link rel="preconnect" href="{site}"><link rel="dns-prefetch" href="{site}"><link rel="prefetch" href="{site}/prefetch">
<link rel="stylesheet" href="{site}/sheet"><link rel="icon" href="{site}/icon">
<script>{run}; parent.postMessage("{mark}", "*"); top.location = "{site}/top"; open("{site}/popup"); fetch("{site}/fetch")</script>
<script src="{site}/script"></script><script type="speculationrules">{{"prefetch":[{{"urls":["{site}/rule"]}}]}}</script>
<style>@import "{site}/import"; @font-face {{ font-family: f; src: url({site}/font) }}
h1 {{ color: rgb(1, 2, 3); background: url({site}/css) }} p {{ font-family: f }}</style>
<h1>The artifact</h1><p>is shown</p>
<img src="{site}/img" srcset="{site}/set 2x" onerror="{run}"><svg><image href="{site}/svg-image"/><use href="{site}/use#x"/></svg>
<video src="{site}/video" poster="{site}/poster" autoplay></video><audio src="{site}/audio"></audio>
<iframe src="{site}/frame"></iframe><iframe srcdoc="<script>{run};parent.parent.postMessage('{mark}','*')</script>"></iframe>
<object data="{site}/object"></object><embed src="{site}/embed">
<form id="f" action="{site}/form" target="_top"><input name="a" autofocus onfocus="{run}"><button id="go">Go</button></form>
<a id="away" href="{site}/link" target="_top" ping="{site}/ping">Away</a>
<a id="script" href="javascript:{run}">Script</a>
<body onload="{run}">"""
SVG = """<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="90" height="60" onload="{run}">
<script>{run}; fetch("{site}/svg-fetch")</script><style>@import "{site}/svg-css"; rect {{ fill: url({site}/svg-fill) }}</style>
<image xlink:href="{site}/svg-image" width="9" height="9"/><a xlink:href="javascript:{run}"><rect width="90" height="60"/></a>
<foreignObject><iframe xmlns="http://www.w3.org/1999/xhtml" src="{site}/svg-frame"/></foreignObject></svg>"""


@pytest.fixture(scope="module")
def stranger():
    with a_stranger() as site:
        yield site


def filled(text, stranger, **words):
    host = stranger.url.removeprefix("http://")
    return text.format(run=RUN, mark=MARK, site=stranger.url, host=host, rlo=RLO, zwsp=ZWSP, **words)


@pytest.fixture
def watched(open_page, stranger):
    """The page of a fresh user, and a witness of what it does."""
    chat = open_page()
    witness = Witness(chat, stranger)
    chat.sign_in()
    return chat, witness


def let_answer(chat, word, *texts):
    """Let the model generate these texts, one a round, without a pause between its pieces."""
    for text in texts:
        chat.stage.fault(kind="fixture", match=word, text=text, token_delay_ms=0)


def addresses(place):
    """Return the schemes of all links of an element as the browser reads them."""
    return place.locator("a[href]").evaluate_all("links => links.map(link => [link.protocol, link.href])")


def test_a_script_that_runs_and_a_request_that_leaves_would_be_seen(watched, stranger):
    chat, witness = watched
    tab = chat.open_tab()
    tab.goto(stranger.show("/site", f"<title>Site</title><script>{RUN}; postMessage('{MARK}', '*')</script>"))
    tab.wait_for_function("() => document.title === 'Site'")
    seen = " ".join(witness.seen)
    for sign in (
        f"console {MARK}",
        f"/site heard {stranger.url} say {MARK}",
        "window ",
        f"answer of {stranger.url}/site",
    ):
        assert sign in seen
    assert stranger.connections > witness.before


def test_tags_handlers_and_links_in_an_answer_do_nothing_and_are_read_as_text(watched, stranger):
    chat, witness = watched
    word = a_word()
    links = "\n\n".join(f"[link {at}]({link})" for at, link in enumerate(LINKS))
    links += "\n\n" + "\n\n".join(f"<a href='{link}'>tag {at}</a>" for at, link in enumerate(LINKS))
    text = filled(ANSWER, stranger, word=word, links=filled(links, stranger))
    let_answer(chat, word, answered(text))
    turn = chat.take_turn(f"Say it: {word}")
    said = turn.locator(".say").last
    expect(said).to_contain_text(f"{word} ends")
    shown = said.inner_text()
    for piece in (
        f"<script>{RUN}</script>",
        "<svg onload=",
        "<meta http-equiv",
        "<base href",
        "<iframe srcdoc=",
    ):
        assert piece in shown
    assert (
        said.locator("script, style, svg script, iframe, img, form, link, base, meta, object, math").count()
        == 0
    )
    for at in range(len(LINKS)):
        assert f"link {at}" in shown
    places = addresses(said)
    assert {protocol for protocol, _ in places} <= {"http:", "https:", "mailto:"}
    page_url = chat.stage.deployed.page_url
    own = [place for _, place in places if place.startswith(page_url)]
    assert all("/f/" in place for place in own), own
    links = said.locator(f"a[href]:not([href^='/']):not([href^='{page_url}'])")
    assert {*links.evaluate_all("all => all.map(link => link.target)")} == {"_blank"}
    assert all("noopener" in rel for rel in links.evaluate_all("all => all.map(link => link.rel)"))
    handlers = said.evaluate(
        "e => [...e.querySelectorAll('*')].flatMap(n => n.getAttributeNames()).filter(n => n.startsWith('on'))"
    )
    assert handlers == []
    witness.check()


def test_hostile_messages_titles_tools_names_and_hits_are_lines_of_text(watched, stranger):
    chat, witness = watched
    word = a_word()
    said = f'{word} <img src={stranger.url}/x onerror="{RUN}"> <script>{RUN}</script> {RLO}txt.exe [x](javascript:{RUN})'
    tool = f"web.{RLO}evil<img src={stranger.url}/t>{'y' * 300}"
    name = f"outputs/{word}{RLO}gpj.html"
    let_answer(
        chat,
        word,
        called(tool, {"q": f"<script>{RUN}</script>"}, notes=f"<b onclick={RUN}>note</b> {RLO}evil"),
        called("react.write", {"path": name, "content": "# x", "kind": "file"}, notes="A file."),
        answered(f"{word} is told. [{RLO}x](fi:turn_x.outputs/{RLO}a.md)"),
    )
    turn = chat.take_turn(said)
    assert turn.locator("h2.said").inner_text() == said
    chat.page.get_by_role("button", name="More").click()
    chat.page.get_by_role("button", name="Rename").click()
    title = f"{RLO}<img src={stranger.url}/title onerror={RUN}>" + "W" * 10
    chat.page.get_by_role("textbox", name="Title").fill(title)
    chat.page.keyboard.press("Enter")
    row = (
        chat.page.get_by_role("navigation", name="Conversations")
        .get_by_role("link")
        .filter(has_text="<img src=")
    )
    expect(row).to_have_count(1)
    expect(chat.page.get_by_role("heading", level=1)).to_contain_text("<img src=")
    names = turn.locator("h4, .json, .tid, code")
    for shown in (row, chat.page.get_by_role("heading", level=1), chat.margin, *names.all()):
        assert RLO not in shown.inner_text()
    witness.check()
    chat.page.reload()
    chat.await_idle()
    chat.open(f"/search?q={word}")
    hits = chat.page.get_by_role("region", name="Search")
    expect(hits.locator("mark").first).to_contain_text(word)
    assert hits.locator("img, script").count() == 0
    witness.check()


def test_a_line_of_thousands_of_characters_and_a_table_of_hundreds_of_rows_stay_in_their_column(
    open_page, stranger
):
    chat = open_page(viewport={"width": 390, "height": 844})
    witness = Witness(chat, stranger)
    chat.sign_in()
    word = a_word()
    rows = "\n".join(f"| {n} | <i>{'w' * 40}</i> | c | d | e | f |" for n in range(200))
    table = f"| n | text | c | d | e | f |\n|---|---|---|---|---|---|\n{rows}"
    line = "z" * 6000
    let_answer(chat, word, answered(f"{line}\n\n```\n{line}\n```\n\n{table}\n\n{word} ends"))
    turn = chat.take_turn(f"At length: {word} {'q' * 3000}")
    expect(turn.locator(".say").last).to_contain_text(f"{word} ends")
    assert line in turn.locator(".say").last.inner_text()
    witness.check()
    chat.page.set_viewport_size({"width": 1360, "height": 860})
    witness.check()


@pytest.fixture
def files(watched, stranger, computing):
    """A conversation whose program has written hostile files; opens one of them."""
    chat, witness = watched
    word = a_word()
    row = f'%d,"=cmd|<img src=x onerror={RUN}>"\n'
    code = FILES_CODE.format(row=row, html=filled(HTML, stranger), svg=filled(SVG, stranger))
    names = [f"outputs/{name}" for name in ("line.txt", "rows.csv", "rows.md", "page.html", "drawing.svg")]
    let_answer(chat, word, coded(code, *names), answered(f"{word} is written."))
    chat.take_turn(f"Write files: {word}")

    def show(name):
        close = chat.margin.get_by_role("button", name="Close")
        if close.count():
            close.click()
        chat.margin.get_by_role("link", name=name).click()
        return chat.page.get_by_role("region", name=f"Preview of {name}")

    return chat, witness, show


def test_files_of_every_kind_are_shown_and_do_nothing(files):
    chat, witness, show = files
    lines = show("line.txt")
    expect(lines.locator("pre, .lines").first).to_contain_text("xxxx")
    witness.check()
    rows = show("rows.csv")
    expect(rows.get_by_role("table")).to_contain_text("=cmd|<img src=x")
    more = rows.get_by_role("button", name="Show all 10,000 rows")
    more.click()
    expect(rows.get_by_role("table")).to_contain_text("9999")
    witness.check()
    markdown = show("rows.md")
    expect(markdown.get_by_role("table")).to_contain_text("<b>row 7</b>")
    witness.check()
    drawing = show("drawing.svg").locator("img")
    assert drawing.get_attribute("src").startswith("blob:")
    assert drawing.evaluate("image => image.decode().then(() => image.naturalWidth)") == 90
    witness.check()
    check_document(chat, witness, show("page.html"))


def check_document(chat, witness, preview):
    """Read a hostile document in its frame, and click on all of it."""
    inner = preview.frame_locator("iframe").frame_locator("iframe")
    expect(inner.locator("h1")).to_have_text("The artifact")
    assert inner.locator("h1").evaluate("e => getComputedStyle(e).color") == "rgb(1, 2, 3)"
    for name in ("#go", "#away", "#script"):
        inner.locator(name).click()
    expect(inner.locator("h1")).to_have_text("The artifact")
    witness.check()
    chat.expected("^policy: (base-uri|script-src-attr) .*/frame.html")
