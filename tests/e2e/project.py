"""A project of five files that a turn writes, and a message that changes one of them in a later turn."""

from __future__ import annotations

PROJECT = {
    "files/main.py": "import sys\nsys.path.insert(0, 'files')\nfrom app.report import write\nprint(write())\n",
    "files/app/__init__.py": '"""Birds."""\n',
    "files/app/birds.py": "\n".join(f"BIRD_{n} = 'sparrow'" for n in range(40)) + "\nBIRD = 'heron'\n",
    "files/app/report.py": (
        "from app.birds import BIRD\n\n\ndef write():\n    text = f'a {BIRD}'\n"
        "    open('outputs/bird.txt', 'w').write(text)\n    return text\n"
    ),
    "files/README.md": "# Birds\n\nOne bird is a heron.\n",
}
CHANGE = """\
Check out the project, apply this patch to files/app/birds.py, search it for crane and run files/main.py, it writes outputs/bird.txt:
```diff
@@ -40,2 +40,2 @@
 BIRD_39 = 'sparrow'
-BIRD = 'heron'
+BIRD = 'crane'
```"""

_WRITE = "".join(
    f"os.makedirs(os.path.dirname({name!r}), exist_ok=True)\nopen({name!r}, 'w').write({text!r})\n"
    for name, text in PROJECT.items()
)
BEGIN = f"Run this program, it writes {' '.join(PROJECT)}:\n```python\nimport os\n{_WRITE}```"
