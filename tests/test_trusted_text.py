"""Nothing trusts text: no template, script or module turns what somebody wrote into markup or into code."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings

ROOT = Path(settings.BASE_DIR)
ROOMS = ("ratings", "simulation", "wetbench_site")
TEMPLATES = [(path, path.read_text(encoding="utf-8")) for path in sorted(ROOT.glob("templates/**/*.html"))]
SCRIPTS = [(path, path.read_text(encoding="utf-8")) for path in sorted(ROOT.glob("static/**/*.js"))]
MODULES = [(path, path.read_text(encoding="utf-8")) for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]

IN_TEMPLATES = {
    "a filter that trusts or rewrites markup": r"\|\s*(safe|safeseq|urlize|urlizetrunc|striptags|unordered_list)\b|\|\s*\w+_html\b",
    "escaping turned off": r"autoescape\s+off",
    "code in an attribute": r"""\shx-on\b|\shx-on[:-]|hx-(?:vals|headers|vars)\s*=\s*['"]\s*js(?:avascript)?:|\shx-vars\b|\son(?:abort|blur|change|click|copy|error|focus|input|key\w+|load|mouse\w+|paste|pointer\w+|reset|submit|toggle|touch\w+)\s*=|javascript:""",
    "code in the page": r"<script(?![^>]*\bsrc=)(?![^>]*application/json)|\sstyle\s*=|<style",
    "markup of another address": r"""(?:src|href|action|hx-(?:get|post))\s*=\s*["']?(?:https?:)?//""",
}
IN_SCRIPTS = {
    "text made markup": r"\b(?:inner|outer)HTML\s*[+=]|insertAdjacentHTML|document\.write|createContextualFragment|\.srcdoc\b|DOMParser|setHTMLUnsafe",
    "text made code": r"\beval\s*\(|new\s+Function\b|\bFunction\s*\(|set(?:Timeout|Interval)\s*\(\s*['\"`]|javascript:|import\s*\(",
}
# What makes a SafeString of text, and where it may: what is drawn there was cleaned by an allow-list or is Django's own.
TRUSTING = {"mark_safe", "SafeString", "SafeText", "SafeData", "html_safe", "__html__"}
MAY_TRUST = {"ratings/drawings.py", "ratings/templatetags/site_nav.py"}


def found(files: list[tuple[Path, str]], banned: dict[str, str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}: {what}: {match.group().strip()[:60]}"
        for path, text in files
        for what, pattern in banned.items()
        for match in re.finditer(pattern, re.sub(r"{#.*?#}", "", text), flags=re.I)
    ]


def test_no_template_trusts_text() -> None:
    assert len(TEMPLATES) > 100 and found(TEMPLATES, IN_TEMPLATES) == []


def test_no_script_of_ours_makes_markup_or_code_of_text() -> None:
    assert len(SCRIPTS) > 3 and found(SCRIPTS, IN_SCRIPTS) == []


def test_the_search_finds_what_it_looks_for() -> None:
    """The control: one line of each kind."""
    here = ROOT / "x"
    templates = ["{{ a|safe }}", "{{ a | truncatechars_html:9 }}", "{% autoescape off %}", "<p hx-on:click=x>", "<p hx-vals='js:{a}'>",
                 "<p onclick=x>", "<script>", "<p style=x>", '<a href="//evil">', "{{ a|urlize }}"]  # fmt: skip
    scripts = ["a.innerHTML = b", "a.insertAdjacentHTML('x', b)", "eval(a)", "new Function(a)", "setTimeout('a')"]
    assert all(found([(here, line)], IN_TEMPLATES) for line in templates)
    assert all(found([(here, line)], IN_SCRIPTS) for line in scripts)


def trusting(tree: ast.AST) -> Iterator[str]:
    """Names and calls in a module that make markup: `format_html` may, of a literal form."""
    for node in ast.walk(tree):
        named = getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "name", None)
        if named in TRUSTING:
            yield str(named)
        if isinstance(node, ast.Call):
            called = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
            literal = bool(node.args) and isinstance(node.args[0], ast.Constant)
            if called == "format_html" and not literal:
                yield "format_html of what is no literal"
            if called == "format_html_join" and not all(isinstance(one, ast.Constant) for one in node.args[:2]):
                yield "format_html_join of what is no literal"
            if isinstance(node.func, ast.Name) and called in ("eval", "exec"):
                yield f"{called}()"


def test_no_module_makes_markup_or_code_of_text() -> None:
    wrong = {str(path.relative_to(ROOT)): sorted(set(trusting(ast.parse(text)))) for path, text in MODULES}
    assert {path: names for path, names in wrong.items() if names and path not in MAY_TRUST} == {}
    assert {path for path in MAY_TRUST if not wrong[path]} == set(), "trusts nothing any more: take it off the list"


def test_no_form_takes_every_column_of_a_model_or_every_field_of_a_request() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path, text in MODULES
        for match in re.finditer(
            r"""fields\s*=\s*["']__all__["']|\*\*\s*request\.(?:POST|GET)\b|request\.(?:POST|GET)\.dict\(\)""", text
        )
    ]
    assert wrong == []


def test_htmx_runs_nothing_and_keeps_nothing() -> None:
    page = (ROOT / "templates/base.html").read_text(encoding="utf-8")
    for said in (
        '"allowEval":false',
        '"selfRequestsOnly":true',
        '"includeIndicatorStyles":false',
        '"allowScriptTags":false',
        '"historyCacheSize":0',
    ):
        assert said in page
    assert [path.name for path, text in TEMPLATES if "{% htmx_script %}" in text] == ["base.html"]
    assert 'hx-history="false"' in (ROOT / "templates/ratings/_rating_card.html").read_text(encoding="utf-8")
