"""The fixed pipeline: retrieval, the calls of each stage, and how a reply becomes an edit, a run and a submission."""

import json
from dataclasses import replace
from typing import Any

import pytest

from simulation.llm.coding.context import CodeContext
from simulation.llm.coding.pipeline import FixedCodingAgent, collect_results, fit_function
from simulation.llm.coding.retrieval import CodePiece, outline_code, rank_texts, split_paragraphs
from simulation.llm.prompt_sets import load_built_in_code
from simulation.providers import Prompt
from simulation.providers.base import Stop
from simulation.replication.tasks.task_files import load_task
from simulation.replication.tools import apply_file_tool
from simulation.replication.values import CodeSituation, CodeStepRecord, LimitsLeft, Task, ToolCall, ToolFormatError
from tests.support.scripted_models import ScriptedProvider, make_completion
from tests.support.small_tasks import write_small_task

TEXTS = load_built_in_code()
SPREAD = (
    '<<<function\ndef spread(self, values: np.ndarray) -> float:\n    """Return the standard deviation with n - 1."""\n'
    "    return float(np.std(values, ddof=1))\n>>>function"
)
OFFSET = "Here it is.\n```python\ndef remove_offset(values, offset):\n    return values - offset\n```\nDone."
NOW = CodeSituation("brief", {}, "", (), LimitsLeft(50, 1800.0, None))


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return load_task(write_small_task(tmp_path_factory.mktemp("tasks")))


def build_agent(
    task: Task, replies: list[Any], memory: Any = None, **arms: Any
) -> tuple[FixedCodingAgent, list[Prompt]]:
    speak = ScriptedProvider(replies)
    context = CodeContext(task, ("f1", "f2"), **{"code": "lexical", **arms})
    return FixedCodingAgent(speak, TEXTS, {} if memory is None else memory, context), speak.prompts


def advance(situation: CodeSituation, call: ToolCall | None, observation: str = "done") -> CodeSituation:
    step = CodeStepRecord(len(situation.history) + 1, call, observation, call is None)
    return replace(situation, history=(*situation.history, step))


# Retrieval


def test_nearest_texts_share_rare_words_with_the_query_and_others_are_left_out() -> None:
    texts = ["the slope of the line", "the buffer of the line", "nothing in common", "the line"]
    # "slope" is in one of four texts, "the" and "line" in three: the first text has the largest cosine.
    assert rank_texts("fit_slope of the line", texts, 2)[0] == 0
    assert rank_texts("slope", texts, 5) == [0]
    assert rank_texts("zzz", texts, 5) == [] and rank_texts("x", ["1"], 5) == [] and rank_texts("", texts, 5) == []


def test_paragraphs_have_the_heading_before_them() -> None:
    paper = "# Title\n\n## Method\n\nThe first\nparagraph.\n\n\nThe second.\n"
    assert split_paragraphs(paper) == ["# Title\n## Method\nThe first\nparagraph.", "The second."]


def test_outline_has_the_first_line_of_every_function_and_of_its_docstring(task: Task) -> None:
    assert outline_code(task.code).endswith(
        "code/small/sums.py\n"
        "    def remove_offset(values: np.ndarray, offset: float) -> np.ndarray:  # Return the readings without the offset.\n"
        "    def spread(self, values: np.ndarray) -> float:  # Return the standard deviation with n - 1."
    )


@pytest.mark.parametrize(
    ("arm", "contained", "missing"),
    [
        ("full", ["def e1(folder", 'raise NotImplementedError("hidden")', "import numpy"], ["return values - offset"]),
        ("ast", ["def e1(folder", "# Return the spread."], ["import numpy", "json.loads"]),
        ("lexical", ["def e1(folder", "json.loads"], ["import numpy", "NotImplementedError", "values - offset"]),
    ],
)
def test_code_of_the_start_follows_the_condition_and_never_has_a_hidden_body(
    task: Task, arm: Any, contained: list[str], missing: list[str]
) -> None:
    section = CodeContext(task, ("f1", "f2"), code=arm).render_code_section()
    assert section.startswith("CODE AT THE START\n<<<CODE ")
    assert [text for text in contained if text not in section] == [text for text in missing if text in section] == []
    assert CodeContext(task, ("f1",), code="none").render_code_section() == ""


@pytest.mark.parametrize(
    ("arm", "contained", "missing"),
    [
        ("full", ["The offset is subtracted from every reading", "[withheld]"], ["e1.mean"]),
        ("oracle", ["The offset is subtracted"], ["The spread is"]),
        ("none", [], ["offset"]),
    ],
)
def test_passages_follow_the_condition_and_have_no_results(
    task: Task, arm: Any, contained: list[str], missing: list[str]
) -> None:
    context = CodeContext(task, ("f1", "f2"), paper=arm)
    passages = "\n".join(context.find_passages(context.hidden_pieces[:1]))
    assert [text for text in contained if text not in passages] == [text for text in missing if text in passages] == []


# The stages


def test_pipeline_chooses_files_reasons_once_and_writes_each_function_once(task: Task) -> None:
    memory: dict[str, Any] = {}
    replies = [
        "- code/small/sums.py\n`code/experiments.py`\ncode/other.py",
        "Subtract, then divide by n - 1.",
        OFFSET,
        SPREAD,
    ]
    agent, prompts = build_agent(task, replies, memory)
    files = {path: text.encode() for path, text in agent.context.masked_code.items()}
    situation = NOW
    for expected in (OFFSET, SPREAD):
        call = agent.choose_tool(situation)
        assert call.tool == "replace"
        result = apply_file_tool(call, files, "")
        assert not result.refused, (expected, result.observation)
        files, situation = dict(result.files), advance(situation, call)
    assert [prompt.purpose for prompt in prompts] == ["files", "reason", "infill", "infill"]
    assert memory == {
        "files": ["code/small/sums.py", "code/experiments.py"],
        "reasoning": "Subtract, then divide by n - 1.",
    }
    module = files["code/small/sums.py"].decode()
    assert "NotImplementedError" not in module and "        return float(np.std(values, ddof=1))\n" in module
    compile(module, "sums.py", "exec")
    run = agent.choose_tool(situation)
    assert (run.tool, run.arguments) == ("run_script", {"path": "run.py", "arguments": "--all"})
    printed = 'exit status 1 after 0.5 s\noutput (9 bytes):\nRESULT e1 {"mean": 2.0}\ne2 failed:\nRESULT e3 {"x": 1'
    submit = agent.choose_tool(advance(situation, run, printed))
    assert submit.tool == "submit" and json.loads(submit.arguments["answer"]) == {"e1": {"mean": 2.0}}


def test_infill_prompt_has_notes_passages_and_code_between_marks_and_the_function_last(task: Task) -> None:
    agent, prompts = build_agent(task, ["code/experiments.py", "NOTES of the model", OFFSET])
    agent.choose_tool(NOW)
    text = prompts[-1].messages[0].text
    order = [
        "<<<NOTES ",
        "NOTES of the model",
        "<<<PASSAGES ",
        "The offset is subtracted",
        "<<<CODE ",
        "def e1(",
        "def remove_offset(",
    ]
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)
    assert "spread(self" not in text and prompts[-1].system == TEXTS.files["code.fixed.txt"].strip()


def test_pipeline_without_retrieval_makes_no_call_for_files(task: Task) -> None:
    agent, prompts = build_agent(task, ["notes", OFFSET], code="none", paper="none")
    agent.choose_tool(NOW)
    assert [prompt.purpose for prompt in prompts] == ["reason", "infill"]
    assert prompts[0].messages[0].text.count("None are available.") == 2


def test_unreadable_function_is_a_step_and_the_next_step_goes_on_with_the_next_function(task: Task) -> None:
    memory: dict[str, Any] = {}
    agent, prompts = build_agent(task, ["", "", "", "notes", "I cannot.", SPREAD], memory)
    with pytest.raises(ToolFormatError, match="remove_offset: there is no block between a line <<<function"):
        agent.choose_tool(NOW)
    # The empty answer to the first question was requested three times; then the files of the hidden functions are taken.
    assert memory["files"] == ["code/small/sums.py"] and len(prompts) == 5
    call = agent.choose_tool(advance(NOW, None))
    assert "spread" in call.arguments["new"] and len(prompts) == 6


def test_missing_notes_are_stated_and_do_not_end_the_pipeline(task: Task) -> None:
    cut = make_completion("too lo", Stop.MAX_TOKENS)
    agent, prompts = build_agent(task, [cut, cut, cut, OFFSET], code="full")
    assert agent.choose_tool(NOW).tool == "replace"
    assert "There are no notes: " in prompts[-1].messages[0].text


def test_last_turn_submits_what_was_printed_so_far(task: Task) -> None:
    agent, prompts = build_agent(task, [])
    call = agent.choose_tool(replace(NOW, last_turn=True))
    assert call == ToolCall("submit", {"answer": "{}"}) and prompts == []


def test_refused_submission_is_followed_by_quit(task: Task) -> None:
    agent, _ = build_agent(task, [])
    situation = NOW
    for tool in ("replace", "replace", "run_script", "submit"):
        situation = advance(situation, ToolCall(tool))
    assert agent.choose_tool(situation).tool == "quit"


# Replies


def test_function_gets_the_indentation_of_the_hidden_one() -> None:
    method = CodePiece("code/a.py", "Sums.spread", "    def spread(self):\n        raise NotImplementedError", "")
    assert (
        fit_function("\n  def spread(self):\n      return 1\n\n", method) == "    def spread(self):\n        return 1"
    )
    with pytest.raises(ToolFormatError, match=r"Sums\.spread: the reply has no line that begins with `def spread\(`"):
        fit_function("def other(self):\n    return 1", method)


def test_results_come_from_the_last_run_and_hostile_lines_are_left_out() -> None:
    first = CodeStepRecord(1, ToolCall("run_script"), 'RESULT e1 {"a": 1.0}', False)
    last = CodeStepRecord(
        2, ToolCall("run_script"), 'RESULT e2 {"a": 2.0}\nRESULT e3 {"a": }\nRESULT x {"a": 1}', False
    )
    assert json.loads(collect_results([first, last])) == {"e2": {"a": 2.0}}
    deep = last._replace(observation="RESULT e1 " + '{"a":' * 50_000 + "1" + "}" * 50_000)
    assert collect_results([first, deep]) == "{}" and collect_results([]) == "{}"
