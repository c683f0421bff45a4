"""Extraction of hostile and of honest texts. The script is called in this process, because the texts are ours and it only parses them."""

import ast
import json
from pathlib import Path

import pytest

from simulation.replication.grading import Extraction, build_checkout, extract_patch
from simulation.replication.grading.extracting import find_own_packages
from simulation.replication.grading.inside.extract import MAX_BODY_BYTES, extract
from simulation.replication.sandbox.base import SandboxResult
from simulation.replication.tasks.masking import mask_code
from tests.support.grading_task import TASK

CURVES = "code/assay/curves.py"
HIDDEN = '    raise NotImplementedError("hidden")'


def read(tmp_path: Path, change, functions=("f2",), path=CURVES):
    """Return the answer of the script for masked code after `change`, a function of the masked text of one module."""
    masked = mask_code(TASK, functions)
    text = change(masked[path])
    for folder, content in (
        ("reference", masked[path].encode()),
        ("agent", text if isinstance(text, bytes) else text.encode()),
    ):
        (tmp_path / folder / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / path).write_bytes(content)
    chosen = [TASK.get_function(name) for name in functions]
    request = {
        "functions": [{"id": f.id, "path": f.path, "name": f.name} for f in chosen],
        "own": find_own_packages(TASK),
    }
    answer = extract(request, tmp_path)
    json.dumps(answer, allow_nan=False)
    return answer


def fill(body):
    return lambda text: text.replace(HIDDEN, body, 1)


def get_body(module: str, name: str) -> str:
    nodes = [node for node in ast.walk(ast.parse(module)) if isinstance(node, ast.FunctionDef) and node.name == name]
    return "\n".join(map(ast.unparse, nodes[0].body[1:]))


@pytest.mark.parametrize(
    ("change", "status", "reason"),
    [
        (fill("    pass"), "hidden", "is still hidden"),
        (fill("    ..."), "hidden", "is still hidden"),
        (fill("    '''Later.'''"), "hidden", "is still hidden"),
        (fill("    raise NotImplementedError"), "hidden", "is still hidden"),
        (fill("    'first'\n    raise NotImplementedError('later')\n    return 1.0, 2.0"), "hidden", "is still hidden"),
        (fill("    return 1.0, 2.0"), "filled", ""),
        (fill("    if len(x) < 2:\n        raise NotImplementedError\n    return 1.0, 2.0"), "filled", ""),
        (lambda text: text.replace("def fit_line(x, y)", "def fit_line(x, y, z=1)").replace(HIDDEN, "    return z, z"), "missing", "has other parameters: (x, y, z=1)"),
        (lambda text: text.replace("def fit_line(x, y)", "def fit_line(y, x)").replace(HIDDEN, "    return 1, 1"), "missing", "has other parameters: (y, x)"),
        (lambda text: text.replace("def fit_line(x, y)", "def fit_line(*, x, y)").replace(HIDDEN, "    return 1, 1"), "missing", "has other parameters: (*, x, y)"),
        (lambda text: text.replace("def fit_line", "async def fit_line").replace(HIDDEN, "    return 1, 1"), "missing", "is an async function; it must stay a plain one"),
        (lambda text: text.replace("def fit_line", "def fit_the_line"), "missing", "is not in its file"),
        (lambda text: text.replace("def fit_line", "fit_line = lambda x, y: (1, 1)\ndef other"), "missing", "is assigned instead of defined by `def` in its file"),
        (lambda text: text.replace("def fit_line", "if True:\n    def fit_line(x, y): return 1, 1\ndef other"), "missing", "is in a statement `if` instead of defined by `def` in its file"),
        (lambda text: "from assay.other import *\n", "missing", "is not in its file"),
        (fill("    return ("), "unreadable", "cannot be compiled: '(' was never closed, line 22"),
        (fill("    return 1\0"), "unreadable", "cannot be compiled: source code string cannot contain null bytes"),
        (fill("    nonlocal x\n    return 1, 1"), "unreadable", "cannot be compiled: name 'x' is parameter and nonlocal, line 22"),
        (fill("    await x"), "unreadable", "cannot be compiled: 'await' outside async function, line 22"),
        (lambda text: text.encode() + b"\nx = '\xff'\n", "unreadable", None),
        (lambda text: b"\xff\xfe" + text.encode("utf-16-le"), "unreadable", None),
        (lambda text: b"# coding: none-such\n" + text.encode(), "unreadable", None),
        (fill("    return " + "(" * 500 + "1" + ")" * 500), "unreadable", None),
        (fill("    return " + "-" * 5000 + "1"), "too large", "is too deeply nested to be read"),
        (fill("    return " + "+".join(["1"] * 5000)), "too large", "is too deeply nested to be read"),
        (fill("    return '" + "x" * MAX_BODY_BYTES + "'"), "too large", "has more than 64 KiB"),
    ],
)  # fmt: skip
def test_extraction_gives_each_function_a_status_and_a_reason(tmp_path, change, status, reason):
    answer = read(tmp_path, change)
    function = answer["functions"]["f2"]
    assert function["status"] == status
    assert reason is None or function["reason"] == reason
    assert bool(function["body"]) == (status == "filled") == bool(answer["modules"])


def test_extraction_reads_an_escaped_surrogate_and_a_string_over_lines_without_changing_them(tmp_path):
    body = (
        '    """Doc of the agent."""\n    text = """a\n  b\\ud800"""\n    return f"""{x}\n{y}""", len(text)  # comment'
    )
    answer = read(tmp_path, fill(body))
    assert answer["functions"]["f2"]["body"] == "text = 'a\\n  b\\ud800'\nreturn (f'{x}\\n{y}', len(text))"
    assert get_body(answer["modules"][CURVES], "fit_line") == answer["functions"]["f2"]["body"]
    docstring = ast.get_docstring(
        next(n for n in ast.parse(answer["modules"][CURVES]).body if getattr(n, "name", "") == "fit_line")
    )
    assert docstring == "Return slope and intercept of the least-squares line of y on x."


def test_extraction_takes_the_last_of_two_definitions_and_names_it(tmp_path):
    answer = read(
        tmp_path,
        lambda text: text.replace(HIDDEN, "    return 1.0, 1.0") + "\n\ndef fit_line(x, y):\n    return 2.0, 2.0\n",
    )
    assert answer["functions"]["f2"]["body"] == "return (2.0, 2.0)"
    assert f"{CURVES}: fit_line is defined 2 times; the last one counts" in answer["outside"]


def test_extraction_keeps_the_reference_header_and_names_other_changes(tmp_path):
    def change(text):
        text = text.replace(
            "def drop_outliers(values, limit=LIMIT):", "@cache\ndef drop_outliers(values: list, limit: float = 2.0):"
        )
        text = text.replace("LIMIT = 3.5", "LIMIT = 9.9\nUNUSED = 1\nprint('imported')")
        return text.replace(HIDDEN, "    return values").replace(
            "        self.slope = slope", "        self.slope = 2 * slope"
        )

    answer = read(tmp_path, change, ("f3",))
    assert "def drop_outliers(values, limit=LIMIT):" in answer["modules"][CURVES]
    assert "LIMIT = 3.5" in answer["modules"][CURVES]
    assert [text.partition(": ")[2] for text in answer["outside"]] == [
        "LIMIT was changed",
        "UNUSED is new and not used by a hidden function",
        "expr statement is new and not used by a hidden function",
        "the header of drop_outliers was changed",
        "Calibration.__init__ was changed",
    ]


def test_extraction_carries_helpers_constants_and_imports_that_a_body_reaches(tmp_path):
    def change(text):
        text = text.replace("import math\n", "import math, statistics as st\nfrom itertools import chain, islice\n")
        text = text.replace(
            "LIMIT = 3.5\n",
            "LIMIT = 3.5\nTWICE = 2 * LIMIT\n\ndef helper(v):\n    return st.fmean(chain(v, [TWICE]))\n\ndef unused():\n    return 1\n",
        )
        return (
            text.replace(HIDDEN, "    inner = lambda v: helper(v)\n    return inner(x), FIRST")
            + "\nFIRST, SECOND = 1, 2\n"
        )

    answer = read(tmp_path, change)
    assert answer["helpers"][CURVES] == [
        "import statistics as st",
        "from itertools import chain",
        "TWICE = 2 * LIMIT",
        "def helper(v):\n    return st.fmean(chain(v, [TWICE]))",
        "FIRST, SECOND = (1, 2)",
    ]
    module = {}
    exec(compile(answer["modules"][CURVES], "module", "exec"), module)
    assert module["fit_line"]([5.0], []) == (6.0, 1)
    assert answer["outside"] == [f"{CURVES}:14: unused is new and not used by a hidden function"]


def test_extraction_leaves_what_would_change_the_reference_module(tmp_path):
    """A new statement that also binds a name of the reference is not carried over, and neither is a rebound function."""

    def change(text):
        text = text.replace("LIMIT = 3.5\n", "LIMIT = 3.5\nNEW, np = 1, None\n")
        return (
            text.replace(HIDDEN, "    return NEW, drop_outliers(x)")
            + "\ndef drop_outliers(values, limit=0):\n    return []\n"
        )

    answer = read(tmp_path, change)
    assert CURVES not in answer["helpers"]
    assert "NEW" not in answer["modules"][CURVES].replace("return (NEW", "")
    assert any("drop_outliers was changed" in text for text in answer["outside"])


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("import os\n    return os.getpid(), 1", ["import os"]),
        ("from numpy import load\n    return load('data'), 1", ["import numpy.load"]),
        ("from assay.curves import math, np\n    return 1, 1", []),
        ("import experiments\n    return 1, 1", ["import experiments"]),
        ("return eval('1'), open('x')", ["name eval", "name open"]),
        ("e = eval\n    return e('1'), 1", ["name eval"]),
        ("return getattr(x, 'shape'), getattr(x, '__class__')", []),
        ("return getattr(x, '__dict__'), getattr(x, y)", ["attribute __dict__", "computed attribute getattr"]),
        ("g = getattr\n    return g(x, '__dict__'), 1", ["name getattr"]),
        ("m = np\n    n = m\n    n.mean = max\n    return 1, 1", ["rebinding n...mean"]),
        ("np.core.sys.exit()\n    return np.load('x'), 1", ["attribute np...sys", "attribute np...load"]),
        ("LIMIT.x = 1\n    Calibration.predict = None\n    return 1, 1", ["rebinding LIMIT...x", "rebinding Calibration...predict"]),
        ("global LIMIT\n    LIMIT = 1\n    return 1, 1", ["rebinding LIMIT"]),
        ("return x.__class__.__bases__, __builtins__", ["attribute __bases__", "name __builtins__"]),
        ("r = np.zeros(3)\n    r.shape = (3, 1)\n    r[0] = x[0]\n    self = r\n    return float(r.mean()), 1", []),
        ("signal, gc, io, open, input = x, 1, 2, 3, 4\n    return signal[gc], io + open + input", []),
        ("return [open for open in x], (lambda eval: eval)(1)", []),
        ("return (lambda: open('x'))(), 1", ["name open"]),
    ],
)  # fmt: skip
def test_screen_names_what_a_hidden_function_has_no_business_with(tmp_path, body, what):
    findings = read(tmp_path, fill("    " + body))["findings"]
    assert sorted(f"{finding['kind']} {finding['what']}" for finding in findings) == sorted(what)
    assert all(finding["where"] == "fit_line" and finding["line"] >= 22 for finding in findings)


def test_screen_reads_helpers_too(tmp_path):
    answer = read(
        tmp_path,
        lambda text: (
            text.replace("import math\n", "import math\nimport os as system\n").replace(HIDDEN, "    return helper(x)")
            + "\ndef helper(x):\n    return system.environ\n"
        ),
    )
    assert [(finding["where"], finding["kind"]) for finding in answer["findings"]] == [("system", "import")]


def test_extraction_collects_numbers_of_code_and_of_texts(tmp_path):
    answer = read(tmp_path, fill("    table = '{\"a\": 12.5}'\n    return -3.25, 1e400, True, 10**2, " + "9" * 400))
    assert answer["literals"] == [12.5, 3.25, 10, 2]


def test_extraction_in_a_sandbox_lists_changed_files_and_returns_the_same_after_storing(room):
    initial = {**room.mask(["f2", "f4"]), "data/standards.csv": b"1,2\n", "run.py": b"", "TASK.md": b"# Task\n"}
    files = {**initial, "run.py": b"print(1)", "data/standards.csv": b"0,0\n", "notes.txt": b"x"}
    del files["TASK.md"]
    files[CURVES] = files[CURVES].replace(b"raise NotImplementedError", b"return 1.0, 2.0  #", 1)
    extraction = extract_patch(TASK, ["f2", "f4"], files, room.sandbox, initial)
    assert {name: entry.status for name, entry in extraction.functions.items()} == {"f2": "filled", "f4": "hidden"}
    assert extraction.outside == (
        "TASK.md: was removed",
        "data/standards.csv: was changed",
        "notes.txt: is new",
        "run.py: was changed",
    )
    assert Extraction.from_json(json.loads(json.dumps(extraction.to_json()))) == extraction
    checkout = build_checkout(TASK, ["f2", "f4"], extraction)
    assert get_body(checkout[CURVES], "fit_line") == "return (1.0, 2.0)"
    assert (
        get_body(checkout[CURVES], "predict") == "raise NotImplementedError('hidden')"
    )  # no reference body beside an agent's code
    assert checkout["code/assay/report.py"] == TASK.code["code/assay/report.py"]


def test_extraction_survives_a_file_that_crashes_the_parser(room):
    files = {**room.mask(["f2"]), CURVES: b"x = " + b"[" * 90 + b"1" + b"]" * 90 + b"\n" + b"a" * 900_000}
    extraction = extract_patch(TASK, ["f2"], files, room.sandbox)
    assert extraction.functions["f2"].status in ("missing", "unreadable")


@pytest.mark.parametrize(
    ("body", "after", "status"),
    [
        # Names without effect fill the answer of a sandbox, which has 256 KiB, only if they are written out.
        ("    return 1.0, 2.0", "".join(f"\n{'z' * 9_000}{number} = 1" for number in range(100)), "filled"),
        (f"    text = '{'é' * 30_000}'\n    return 1.0, 2.0", "", "too large"),
    ],
)
def test_extraction_whose_answer_would_be_cut_off_still_gives_each_function_its_status(room, body, after, status):
    files = room.mask(["f2"])
    files[CURVES] = (files[CURVES].decode().replace(HIDDEN, body) + after).encode()
    extraction = extract_patch(TASK, ["f2"], files, room.sandbox)
    assert extraction.functions["f2"].status == status
    assert len(extraction.outside) == (100 if after else 0)


@pytest.mark.parametrize(
    ("result", "killed"),
    [
        (b"", ""),
        (b"{}", ""),
        (b'{"functions": {"f2": {"status": "solved"}}}', ""),
        (b"\xff", ""),
        (b"[" * 9999, ""),
        (b"", "memory"),
    ],
)
def test_extraction_without_a_valid_answer_leaves_every_function_unreadable(result, killed):
    class BrokenSandbox:
        name = "broken"

        def run(self, *arguments, **options):
            return SandboxResult(None if killed else 0, 0.1, 0.1, 1, "", 0, killed, {}, (), result)

    extraction = extract_patch(TASK, ["f2"], {}, BrokenSandbox())
    assert extraction.functions["f2"].status == "unreadable"
    assert (killed or "exit status 0") in extraction.functions["f2"].reason
