"""The rules of the house that no linter knows: each is a function that lists what breaks it, and is shown to find some."""

import ast
import os
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUNTIME = ROOT / "layers/runtime/python/stepline"
LIBRARY = (
    RUNTIME,
    ROOT / "bundles",
    ROOT / "examples",
    ROOT / "lambdas",
    ROOT / "stepline_cdk",
    ROOT / "docs/build",
    ROOT / "exec_task",
)
AROUND = (ROOT / "tests", ROOT / "bench")
TEST_LINES, FUNCTION_LINES, FOLDER_MODULES, LOOK_HARD_LINES = 500, 60, 15, 600
RIDDLE = re.compile(r"(What|Whoever|Who|Whether)\b")
VAGUE = {"util", "utils", "helper", "helpers", "common", "manager", "misc", "base_utils"}
ABOVE_THE_CORE = {"__main__", "adapters", "bootstrap", "local", "settings", "testing"}
ADAPTERS = {
    *(
        "anthropic",
        "aws",
        "bedrock",
        "boto3",
        "botocore",
        "cloudwatch",
        "docker",
        "dynamo",
        "dynamodb",
        "ecs",
    ),
    *("eventbridge", "fargate", "lambda", "oidc", "redis", "s3", "sqs", "subprocess"),
}
NAMED = {
    # Codes are public: clients and stored results know them by these words.
    *("docker_args_refused", "docker_image_missing", "docker_unavailable"),
    *("fargate_config_missing", "fargate_run_failed"),
    # Errors of a step are in it as the state machine wrote them.
    *("Ecs.", "ECS.", "AmazonECS."),
    *("Lambda.Unknown",),
    # The names of units in receipts, and where a deployment states their prices.
    *("S3 get", "S3 put", "aws", "AwsCost", "aws_usd", "stepline.model.tenancy.aws_price"),
    # A metric's name is public.
    *("AWS_USD", "AwsUsd"),
    # Logs of every runtime, which an archive of the model may not imitate.
    *("docker.err", "docker.out"),
}
"""Names and texts of the core that name an adapter, each for a reason."""
WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


def modules(*folders: Path) -> list[Path]:
    return sorted(path for folder in folders for path in folder.rglob("*.py"))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def long_modules(paths: list[Path]) -> list[str]:
    return [str(path) for path in paths if len(path.read_text().splitlines()) > TEST_LINES]


def long_functions(paths: list[Path]) -> list[str]:
    """From `def` to the last line, with the docstring and without decorators."""
    return [
        f"{path}:{function.lineno} {function.name}"
        for path in paths
        for function in functions(path)
        if (function.end_lineno or 0) - function.lineno >= FUNCTION_LINES
    ]


def crowded_folders(root: Path) -> list[str]:
    """`__init__.py` does not count: it is the folder's own."""
    count: dict[Path, int] = defaultdict(int)
    for path in modules(root):
        count[path.parent] += path.name != "__init__.py"
    return [str(folder) for folder, found in count.items() if found > FOLDER_MODULES]


def shared_names(root: Path) -> list[str]:
    """List the stems that several modules have without being allowed to.

    An adapter may be named like its port or like a module of another adapter, a module of `local/command` like its
    command; `__init__` and `__main__` are Python's.
    """
    own: dict[str, list[Path]] = defaultdict(list)
    for path in modules(root):
        place = path.relative_to(root)
        if path.stem.startswith("__") or place.parts[:2] == ("local", "command"):
            continue
        own[path.stem].append(place)
    return sorted(stem for stem, places in own.items() if len(places) > 1 and not _adapters(places))


def _adapters(places: list[Path]) -> bool:
    ports = [place for place in places if place.parts[0] == "ports"]
    return len(places) == len(ports) + sum(place.parts[0] == "adapters" for place in places)


def unplain_modules(paths: list[Path]) -> list[str]:
    return [str(path) for path in paths if path.stem in VAGUE or UNFINISHED.search(path.read_text())]


def riddles(paths: list[Path]) -> list[str]:
    """List the docstrings that begin with a clause in place of a verb or a noun."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        f"{path}:{getattr(node, 'lineno', 1)} {text.splitlines()[0]}"
        for path in paths
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, documented) and (text := ast.get_docstring(node)) and RIDDLE.match(text)
    ]


def write_modules(root: Path, texts: dict[str, str]) -> list[Path]:
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return modules(root)


def test_a_test_module_has_at_most_500_lines():
    assert not long_modules(modules(*AROUND))


def test_a_longer_test_module_is_found(tmp_path):
    found = write_modules(tmp_path, {"short.py": "x = 1\n" * 500, "long.py": "x = 1\n" * 501})
    assert long_modules(found) == [str(tmp_path / "long.py")]


def test_a_function_has_at_most_60_lines():
    assert not long_functions([ROOT / "app.py", ROOT / "hatch_build.py", *modules(*LIBRARY, *AROUND)])


def test_a_longer_function_is_found_in_a_class_and_in_a_function_too(tmp_path):
    body = "{0}pass\n" * 59
    text = f"def fits():\n{body.format('    ')}"
    text += f"class C:\n    async def long(self):\n        pass\n{body.format('        ')}"
    text += f"def outer():\n    def inner():\n        pass\n{body.format('        ')}"
    found = write_modules(tmp_path, {"a.py": text})
    assert [one.split()[-1] for one in long_functions(found)] == ["outer", "long", "inner"]


def test_the_mapping_of_a_door_has_at_most_150_lines():
    mappings = [*ROOT.glob("web/packages/*/[mp]*ing.ts"), *RUNTIME.glob("api/doors/*.py")]
    assert {path.name for path in mappings if len(path.read_text().splitlines()) > 150} == set()
    assert len(mappings) >= 5


def test_a_folder_of_the_library_has_at_most_15_modules():
    assert not crowded_folders(RUNTIME)
    assert not crowded_folders(ROOT / "lambdas")


def test_a_crowded_folder_is_found(tmp_path):
    write_modules(tmp_path, {f"full/m{at}.py": "" for at in range(15)} | {"full/__init__.py": ""})
    write_modules(tmp_path, {f"full/deep/m{at}.py": "" for at in range(16)})
    assert crowded_folders(tmp_path) == [str(tmp_path / "full/deep")]


def test_a_module_s_name_occurs_once_in_the_library():
    assert not shared_names(RUNTIME)


def test_a_name_that_occurs_twice_is_found(tmp_path):
    pairs = (
        "ports/log",
        "adapters/aws/log",
        "adapters/memory/log",
        "timeline/export",
        "local/command/export",
    )
    adapters = ("adapters/aws/error", "adapters/provider/error", "__main__", "local/scripted/__main__")
    wrong = ("loop/gate", "tools/gate", "ports/task", "model/task", "adapters/tail", "rendering/tail")
    write_modules(tmp_path, {f"{name}.py": "" for name in (*pairs, *adapters, *wrong)})
    assert shared_names(tmp_path) == ["gate", "tail", "task"]


def test_a_module_has_a_plain_name_and_no_open_work():
    assert not unplain_modules(modules(*LIBRARY))


def test_a_vague_name_and_an_unfinished_module_are_found(tmp_path):
    texts = {"utils.py": "", "later.py": f"# {'TO' + 'DO'}: later\n", "fine.py": ""}
    found = unplain_modules(write_modules(tmp_path, texts))
    assert [Path(one).name for one in found] == ["later.py", "utils.py"]


def test_a_docstring_begins_with_a_noun_or_a_verb():
    assert not riddles(modules(RUNTIME, ROOT / "lambdas", ROOT / "stepline_cdk", ROOT / "bench"))


def test_a_docstring_that_is_a_riddle_is_found(tmp_path):
    text = '"""Whether it is."""\n\n\ndef f():\n    """What comes of it."""\n\n\nclass C:\n    """Whatever is left."""\n'
    found = write_modules(tmp_path, {"a.py": text})
    assert [one.split(" ", 1)[1] for one in riddles(found)] == ["Whether it is.", "What comes of it."]


def words_of(text):
    """Return the words of an identifier or of a text: `AwsLambda.run_task` has four."""
    return {word.lower() for word in WORD.findall(text)}


def identifiers(tree):
    fields = ("id", "attr", "arg", "name", "asname", "module")
    return {
        text
        for node in ast.walk(tree)
        for field in fields
        if isinstance(text := getattr(node, field, None), str)
    }


def literals(tree):
    """Return the texts of a module that are no docstrings."""
    blocks = [node.body for node in ast.walk(tree) if isinstance(getattr(node, "body", None), list)]
    docs = {id(one.value) for block in blocks for one in block if isinstance(one, ast.Expr)}
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docs)
    return {node.value for node in constants if isinstance(node.value, str)}


def adapters_named_in(tree):
    """Return what names an adapter; `process` does as a text only, for it is a word of programs, too."""
    said = identifiers(tree) | literals(tree)
    return {text for text in said if words_of(text) & ADAPTERS} | (literals(tree) & {"process"})


def core_trees():
    return {
        path.relative_to(RUNTIME): ast.parse(path.read_text())
        for path in modules(RUNTIME)
        if path.relative_to(RUNTIME).parts[0].removesuffix(".py") not in ABOVE_THE_CORE
    }


def test_the_core_names_no_adapter():
    found = {path: adapters_named_in(tree) - NAMED for path, tree in core_trees().items()}
    assert {path: names for path, names in found.items() if names} == {}


def test_references_to_adapters_are_found_and_no_exception_is_stale():
    code = 'class FargateTask: "ecs"\ndef process(aws_region): use("ecs:runTask", mode="process", at=S3)\n'
    assert adapters_named_in(ast.parse(code)) == {"FargateTask", "aws_region", "ecs:runTask", "process", "S3"}
    assert set().union(*map(adapters_named_in, core_trees().values())) >= NAMED


def test_a_module_above_600_lines_has_its_reason_in_agents_md():
    reasons = (ROOT / "AGENTS.md").read_text()
    large = [path for path in modules(RUNTIME) if len(path.read_text().splitlines()) > LOOK_HARD_LINES]
    assert [path for path in large if f"`{path.relative_to(RUNTIME)}`" not in reasons] == []


def test_a_file_of_tests_has_a_unique_name():
    stems = Counter(path.stem for path in modules(ROOT / "tests") if path.stem.startswith("test_"))
    assert [stem for stem, count in stems.items() if count > 1] == []


def test_make_lists_every_target():
    listed = subprocess.run(
        ["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    named = {line.split()[0] for line in listed.splitlines()}
    assert {"chat", "test", "check", "e2e", "bench", "docs", "synth", "up", "down", "clean"} <= named
    targets = re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert named == set(targets)


def test_the_build_can_be_run():
    assert os.access(ROOT / ".ci/run", os.X_OK)
