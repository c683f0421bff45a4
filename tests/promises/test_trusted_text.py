"""No template, script or module turns text that somebody wrote into markup or code."""

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
    "a filter that trusts or rewrites markup": r"(?:\||{%-?\s*filter)\s*(safe|safeseq|urlize|urlizetrunc|striptags|unordered_list)\b|\|\s*\w+_html\b",
    "escaping turned off": r"autoescape\s+off",
    "a value in an attribute without quotes": r"<[a-z][^<>]*\s[\w:-]+={[{%]",
    "code in an attribute": r"""[\s"'](?:data-)?hx-(?:on\b|vars\b|ext\b)|hx-(?:vals|headers)\s*=\s*['"]?\s*js(?:avascript)?:|hx-trigger\s*=\s*(?:"[^"]*\[|'[^']*\[)|[\s"']on(?!e\b)[a-z]+\s*=|javascript:""",
    "code in the page": r"<script(?![^>]*\ssrc=)(?![^>]*application/json)|[\s\"']style\s*=|<style",
    "another page in the page": r"<(?:iframe|frame|object|embed|base)\b|srcdoc|http-equiv",
    "markup of another address": r"""(?:src|href|action|ping|hx-(?:get|post))\s*=\s*["']?(?:https?:)?//""",
}
IN_SCRIPTS = {
    "text made markup": r"(?:inner|outer)HTML[\"'\]\s]*(?:[?|&+*-]*=(?!=)|:)|insertAdjacentHTML|document\.write|createContextualFragment|srcdoc|DOMParser|setHTML|parseHTML|\.html\s*\(|htmx\.swap",
    "text made code": r"\beval\b|\bFunction\s*\(|set(?:Timeout|Interval)\s*\((?!\s*\w+\s*,)|javascript:|\bimport\s*\((?!\"\./[a-z]+\.js\"\))|\bWorker\s*\(|createElement\(\s*[\"'`]script|setAttribute\(\s*(?:[\"'`]on|[^\"'`\s])|\.on[a-z]+\s*=[^=]|\.cssText",
    "text made an address": r"\blocation(?:\.\w+)?\s*=[^=]|location\.(?:assign|replace)\b|window\.open\b|\.(?:src|href|action)\s*=[^=]|setAttribute\(\s*[\"'`](?:src|href|action|style)",
}
# Names that make a SafeString of text. MAY_TRUST lists the modules that may: their text passed an allow-list or is Django's own.
TRUSTING = {"mark_safe", "SafeString", "SafeText", "SafeData", "html_safe", "__html__", "conditional_escape", "is_safe"}
# Names that make a template, an SQL statement or a program of text.
RUNNING = {"eval", "exec", "compile", "__import__", "from_string", "Template"}
RUNNING_AS_METHODS = {"raw", "extra", "system", "popen"}
UNPICKLING = {"pickle", "marshal", "shelve", "dill", "yaml"}
# `texts` renders no HTML: its own engine makes plain text, Markdown and LaTeX of our templates, with a filter for each of the latter.
# `rendered_items`, `rendered_results` and `card_frame` keep HTML that templates rendered, with all values escaped, to put it into a page later.
# `help/rendering` makes HTML of our own documents with markdown-it, which escapes all text and passes no HTML through.
MAY_TRUST = {
    "ratings/results/stored_figures.py", "ratings/templatetags/ratings_tags.py", "ratings/exchange/archive/texts.py",
    "ratings/studies/rendered_items.py", "ratings/web/results/rendered_results.py", "ratings/web/rater/card_frame.py",
    "wetbench_site/help/rendering.py",
    # One compiles an agent's text inside a sandbox and never runs it; the other compiles our own first program of a sandbox.
    "simulation/replication/grading/inside/extract.py", "simulation/replication/sandbox/bubblewrap.py",
}  # fmt: skip


def find_matches(files: list[tuple[Path, str]], banned: dict[str, str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}: {what}: {match.group().strip()[:60]}"
        for path, text in files
        for what, pattern in banned.items()
        for match in re.finditer(pattern, re.sub(r"{#.*?#}", "", text), flags=re.I)
    ]


def test_templates_never_mark_text_as_safe() -> None:
    assert len(TEMPLATES) > 100 and find_matches(TEMPLATES, IN_TEMPLATES) == []


def test_scripts_never_treat_text_as_markup_or_code() -> None:
    assert len(SCRIPTS) > 3 and find_matches(SCRIPTS, IN_SCRIPTS) == []


def test_trusted_text_search_finds_every_kind() -> None:
    """The control: at least one line of each kind."""
    here = ROOT / "x"
    templates = ["{{ a|safe }}", "{{ a | truncatechars_html:9 }}", "{% filter safe %}", "{% autoescape off %}", "<p title={{ a }}>",
                 "<p hx-on:click=x>", "<p data-hx-on:click=x>", "<p hx-vals='js:{a}'>", "<p hx-ext='x'>", '<p hx-trigger="every 1s[a]">',
                 "<p onclick=x>", "<p onwheel=x>", "<script>", '<script data-src="a">', "<p style=x>", '<a href="//evil">', '<a ping="//evil">',
                 "<iframe>", '<base href="/">', '<meta http-equiv="refresh">', "{{ a|urlize }}"]  # fmt: skip
    scripts = ["a.innerHTML = b", "a.innerHTML ||= b", 'a["innerHTML"] = b', "Object.assign(a, {innerHTML: b})", "a.setHTMLUnsafe(b)",
               "a.insertAdjacentHTML('x', b)", "eval(a)", '(0, window["eval"])(a)', "new Function(a)", "import(a)", 'import("./" + a)', "setTimeout('a')", "setTimeout(a + 'x')",
               "a.setAttribute('onclick', b)", "a.setAttribute(b, c)", "a.onclick = b", "location.href = b", "a.src = b"]  # fmt: skip
    assert [line for line in templates if not find_matches([(here, line)], IN_TEMPLATES)] == []
    assert [line for line in scripts if not find_matches([(here, line)], IN_SCRIPTS)] == []
    assert [line for line in PLANTED if not list(iter_trusting_names(ast.parse(line)))] == []


PLANTED = (
    "mark_safe(a)", "safestring.mark_safe(a)", "from django.utils.safestring import mark_safe as m", "getattr(s, 'mark_safe')(a)",
    "class A:\n def __html__(self): return a", "register.filter(is_safe=True)", "simple_tag(autoescape=False)",
    "format_html('<b>%s</b>' % a)", "format_html(f'<b>{a}</b>')", "format_html('<b>{}</b>'.format(a))", "format_html(format_string=a)",
    "html.format_html(a)", "f = format_html", "from django.utils.html import format_html as f", "format_html_join('', a, b)",
    "format_html_join(sep='', format_string=a, args_generator=b)", "Template(a)", "engines['django'].from_string(a)",
    "eval(a)", "builtins.eval(a)", "compile(a, '', 'exec')", "import pickle", "from yaml import load", "run(a, shell=True)", "os.system(a)",
    "Study.objects.raw(a)", "Study.objects.extra(where=[a])",
)  # fmt: skip


def iter_trusting_names(tree: ast.AST) -> Iterator[str]:
    """Yield names and calls in a module that make markup or code of text. `format_html` is allowed with a literal format string."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        used_name = getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "name", None)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            used_name = node.value
        if used_name in TRUSTING:
            yield str(used_name)
        if isinstance(node, ast.Name | ast.Attribute) and used_name in FORMATTERS and id(node) not in called:
            yield f"{used_name} under another name"
        if isinstance(node, ast.alias) and used_name in FORMATTERS and node.asname:
            yield f"{used_name} under another name"
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [getattr(node, "module", None), *(alias.name for alias in node.names)]
            yield from (name for name in names if name in UNPICKLING)
        if isinstance(node, ast.Call):
            yield from _check_call(node)


# Functions with format strings for markup, and how many of their arguments are format strings.
FORMATTERS = {"format_html": 1, "format_html_join": 2}


def _check_call(node: ast.Call) -> Iterator[str]:
    name = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
    format_strings = node.args[: FORMATTERS.get(str(name), 0)]
    if name in FORMATTERS and (
        len(format_strings) < FORMATTERS[name]
        or not all(isinstance(argument, ast.Constant) for argument in format_strings)
    ):
        yield f"{name} with a format string that is not a literal"
    is_method = isinstance(node.func, ast.Attribute)
    if (name in RUNNING and ast.unparse(node.func) != "re.compile") or (is_method and name in RUNNING_AS_METHODS):
        yield f"{name}()"
    for argument in node.keywords:
        value = argument.value.value if isinstance(argument.value, ast.Constant) else None
        if (argument.arg, value) in (("shell", True), ("autoescape", False)) or argument.arg == "is_safe":
            yield f"{argument.arg}={value}"


def test_modules_never_treat_text_as_markup_or_code() -> None:
    trusting_names = {
        str(path.relative_to(ROOT)): sorted(set(iter_trusting_names(ast.parse(text)))) for path, text in MODULES
    }
    assert {path: names for path, names in trusting_names.items() if names and path not in MAY_TRUST} == {}
    assert {path for path in MAY_TRUST if not trusting_names[path]} == set(), (
        "no longer trusts text: remove it from the list"
    )


# A form that lists excluded fields accepts every column that a model gets later.
TAKES_ALL = r"""["']?fields["']?\s*[=:]\s*["']__all__["']|model\w*_factory|\*\*[^\n,]*request\.(?:POST|GET)\b|request\.(?:POST|GET)\.dict\(\)|update\(\s*(?:dict\()?request\.(?:POST|GET)\b"""


def find_mass_assignment(files: list[tuple[Path, str]]) -> list[str]:
    matches = [
        f"{path.relative_to(ROOT)}: {match.group()}" for path, text in files for match in re.finditer(TAKES_ALL, text)
    ]
    for path, text in files:
        model_forms = [
            node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef) and _is_model_form(node)
        ]
        matches += [f"{path.relative_to(ROOT)}: {node.name}" for node in model_forms if not _lists_its_fields(node)]
    return matches


def _is_model_form(node: ast.ClassDef) -> bool:
    return any("ModelForm" in ast.unparse(base) for base in node.bases)


def _lists_its_fields(node: ast.ClassDef) -> bool:
    assigned_names = {
        ast.unparse(target) for inner in ast.walk(node) if isinstance(inner, ast.Assign) for target in inner.targets
    }
    return "fields" in assigned_names and "exclude" not in assigned_names


def test_forms_list_their_fields() -> None:
    assert find_mass_assignment(MODULES) == []
    here = ROOT / "x"
    planted = ["f(**request.POST)", "f(**dict(request.POST.items()))", "f(**{request.GET['f']: 1})", "data = request.POST.dict()",
               "class F(ModelForm):\n class Meta:\n  exclude = ('a',)", "modelform_factory(M, exclude=())",
               "o.__dict__.update(request.POST)"]  # fmt: skip
    assert [line for line in planted if not find_mass_assignment([(here, line)])] == []


def test_htmx_is_configured_to_run_nothing_and_store_no_history() -> None:
    page = (ROOT / "templates/base.html").read_text(encoding="utf-8")
    for setting in (
        '"allowEval":false',
        '"selfRequestsOnly":true',
        '"includeIndicatorStyles":false',
        '"allowScriptTags":false',
        '"historyCacheSize":0',
    ):
        assert setting in page
    assert [path.name for path, text in TEMPLATES if "{% htmx_script %}" in text] == ["base.html"]
    assert 'hx-history="false"' in (ROOT / "templates/ratings/_rating_card.html").read_text(encoding="utf-8")
