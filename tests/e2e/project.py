"""A project of five files that a turn writes, and a message that changes one of them in a later turn."""

from __future__ import annotations

from stepline.local.scripted.script import Round
from stepline.local.scripted.speech import Saying
from tests.support.script import script

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
PATCH = "@@ -40,2 +40,2 @@\n BIRD_39 = 'sparrow'\n-BIRD = 'heron'\n+BIRD = 'crane'\n"
RUN = Saying(
    tool="exec_tools.execute_code_python",
    params={
        "contract": [{"filename": "outputs/bird.txt", "description": "The bird"}],
        "prog_name": "A program",
    },
    code="import runpy\nrunpy.run_path('files/main.py', run_name='__main__')",
)
STEPS = (
    Saying(tool="react.checkout", params={"mode": "replace", "paths": ["newest:files/"]}),
    Saying(tool="react.patch", params={"path": "files/app/birds.py", "channel": "canvas", "patch": PATCH}),
    Saying(tool="react.rg", params={"root": "files", "pattern": "crane"}),
    RUN,
)
CHANGE = script(*(Round(calls=(step,)) for step in STEPS))

_WRITE = "".join(
    f"os.makedirs(os.path.dirname({name!r}), exist_ok=True)\nopen({name!r}, 'w').write({text!r})\n"
    for name, text in PROJECT.items()
)
BEGIN = f"Run this program, it writes {' '.join(PROJECT)}:\n```python\nimport os\n{_WRITE}```"
