"""The parts of the paper and the code base that a prompt shows, by the conditions of a run, for one mask."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from simulation.llm.coding.retrieval import (
    MOST_FUNCTIONS,
    MOST_PASSAGES,
    CodePiece,
    list_pieces,
    outline_code,
    rank_texts,
    split_paragraphs,
)
from simulation.llm.prompt_data import delimit_text
from simulation.replication.tasks.masking import mask_code
from simulation.replication.tasks.papers import render_paper
from simulation.replication.values import CodeArm, DocsArm, PaperArm, Task

NOT_AVAILABLE = "None are available."


@dataclass(frozen=True)
class CodeContext:
    """A mask of a task under the conditions of a run. The code is the initial one, so that nothing an agent wrote is parsed."""

    task: Task
    function_ids: Sequence[str]
    paper: PaperArm = "full"
    code: CodeArm = "none"
    docs: DocsArm = "kept"

    @cached_property
    def masked_code(self) -> dict[str, str]:
        """The code base with hidden bodies, by path."""
        return mask_code(self.task, self.function_ids, self.docs)

    @cached_property
    def pieces(self) -> list[CodePiece]:
        """Every function of the code base as the agent sees it."""
        return list_pieces(self.masked_code)

    @cached_property
    def hidden_pieces(self) -> list[CodePiece]:
        """The hidden functions, in the order of the mask: signature, docstring, and the statement that raises."""
        by_place = {(piece.path, piece.name): piece for piece in self.pieces}
        functions = map(self.task.get_function, self.function_ids)
        return [by_place[function.path, function.name] for function in functions]

    def render_code_section(self) -> str:
        """Return the section of an agent's prompt with the initial code, or "" for the condition "none"."""
        if self.code == "none" or not self.function_ids:
            return ""
        return f"CODE AT THE START\n{delimit_text('CODE', self._select_code())}"

    def _select_code(self) -> str:
        if self.code == "lexical":
            return render_pieces(self.find_near_pieces(self.hidden_pieces, self.pieces))
        return self.render_all_code()

    def render_all_code(self) -> str:
        """Return the whole code base, or its outline for the condition "ast"."""
        if self.code == "ast":
            return outline_code(self.masked_code)
        return "\n\n".join(f"# {path}\n{text.rstrip()}" for path, text in sorted(self.masked_code.items()))

    def find_near_pieces(self, functions: Sequence[CodePiece], pieces: Sequence[CodePiece]) -> list[CodePiece]:
        """Return the functions that are nearest to each of `functions`, each once, without the hidden ones."""
        others = [piece for piece in pieces if piece not in self.hidden_pieces]
        near = {
            position: others[position]
            for function in functions
            for position in rank_texts(function.text, [piece.text for piece in others], MOST_FUNCTIONS)
        }
        return [near[position] for position in sorted(near)]

    def find_passages(self, functions: Sequence[CodePiece]) -> list[str]:
        """Return the passages of the paper for these hidden functions, in the order of the paper.

        The condition "full" gives the nearest paragraphs of each function, "oracle" the sections that the task names for it, and
        "none" nothing.
        """
        if self.paper == "none":
            return []
        if self.paper == "oracle":
            places = {(function.path, function.name) for function in functions}
            ids = [each.id for each in self.task.functions if (each.path, each.name) in places]
            return [render_paper(self.task, "oracle", ids).strip()]
        paragraphs = split_paragraphs(render_paper(self.task))
        near = {at for function in functions for at in rank_texts(function.text, paragraphs, MOST_PASSAGES)}
        return [paragraphs[at] for at in sorted(near)]


def render_passages(passages: Sequence[str]) -> str:
    """Return passages of the paper between marks, or that there are none."""
    return delimit_text("PASSAGES", "\n\n".join(passages)) if passages else NOT_AVAILABLE


def render_pieces(pieces: Sequence[CodePiece]) -> str:
    """Return functions with their files."""
    return "\n\n".join(f"# {piece.path}\n{piece.text}" for piece in pieces)
