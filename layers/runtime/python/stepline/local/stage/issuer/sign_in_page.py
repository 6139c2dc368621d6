"""The pages that the issuer shows: a form that asks for a name, and a word about what went wrong. No scripts."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from html import escape
from typing import Final

from stepline.local.stage.issuer.signing import AUTHORIZE

_STYLE: Final = """
:root { color-scheme: light dark; font: 16px/1.6 system-ui, sans-serif; }
body { margin: 0 auto; padding: 12vh 24px 24px; max-width: 26rem; }
h1 { font-size: 1.15rem; font-weight: 600; margin: 0 0 4px; }
p { margin: 0 0 24px; opacity: .75; }
label { display: block; font-size: .85rem; margin-bottom: 4px; }
input, button { font: inherit; padding: 9px 12px; border-radius: 6px; border: 1px solid #7d8b90; }
input { width: 100%; box-sizing: border-box; background: transparent; color: inherit; margin-bottom: 16px; }
button { background: #0b6e74; border-color: #0b6e74; color: #fff; min-height: 44px; padding-inline: 20px; cursor: pointer; }
input:focus-visible, button:focus-visible { outline: 2px solid #0b8f97; outline-offset: 2px; }
.wrong { color: light-dark(#a3222c, #ff9aa0); opacity: 1; }
"""
_KEY_FIELD: Final = """<label for="key">Key, of the address that `stepline page` prints</label>
<input id="key" name="key" type="password" maxlength="128" required autocomplete="off">
"""
_DIGEST: Final = b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()


def render_policy(page: str) -> str:
    """Return the policy of the pages: a style, and a form that leads here, and from here to `page`."""
    return (
        f"default-src 'none'; style-src 'sha256-{_DIGEST}'; form-action 'self' {page}; base-uri 'none'; "
        "frame-ancestors 'none'"
    )


def render_form(form: str, name: str, *, asks_key: bool, wrong: str = "") -> str:
    """Return the form. `form` is its secret value, `name` the one in the field; it `asks_key` of a browser without it."""
    note = f'<p class="wrong" role="alert">{escape(wrong)}</p>' if wrong else ""
    return _render(
        "Sign in to Stepline",
        f"""<h1>Sign in to Stepline</h1>
<p>This is a development stage on this machine: any name will do. Its key is for its owner alone.</p>
{note}<form method="post" action="{AUTHORIZE}">
<input type="hidden" name="form" value="{escape(form)}">
<label for="user">Name</label>
<input id="user" name="user" value="{escape(name)}" maxlength="64" required autofocus autocomplete="username" spellcheck="false">
{_KEY_FIELD if asks_key else ""}<button>Sign in</button>
</form>""",
    )


def render_refusal(title: str, words: str) -> str:
    """Return a page that only says something."""
    return _render(title, f"<h1>{escape(title)}</h1>\n<p>{escape(words)}</p>")


def _render(title: str, body: str) -> str:
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
{body}
</body>
</html>
"""
