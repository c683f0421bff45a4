"""The JSON documents of the API. Null means not known, not applicable, or sealed."""

from datetime import date, datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, create_model

from ratings.exchange import exports
from ratings.exchange.archive import archive_files

_PYTHON_TYPES: dict[str, Any] = {
    "text": str, "count": int, "number": float, "flag": bool, "moment": datetime, "list": list[str],
}  # fmt: skip
NEXT_PAGE_FIELD = Field(description="URL path of the next page; null: this is the last page.")


class ApiModel(BaseModel):
    model_config = ConfigDict(extra="forbid", json_schema_serialization_defaults_required=True)


class Study(ApiModel):
    slug: str = Field(description="Short name, used in URLs.", examples=["titration-pilot"])
    code: UUID
    name: str
    kind: str = Field(description="transition_plausibility or evidence_sufficiency.")
    question: str
    status: str = Field(description="draft, open, paused, closed or unblinded.")
    unblinded: bool = Field(description="Whether sources and statistics are available.")
    ratings_per_item: int
    deadline: date | None
    created_at: datetime
    opened_at: datetime | None
    closed_at: datetime | None
    unblinded_at: datetime | None


class Progress(ApiModel):
    """Progress as on the study's page: without repeats, surplus ratings and ratings of dropped raters."""

    items: int
    ratings: int = Field(description="Ratings that count.")
    wanted: int
    complete: bool = Field(description="Whether the study's stop rule is met.")
    said: str


class WholeStudy(Study):
    guide: str = Field(description="Instructions of this study for raters.")
    progress: Progress
    protocol: dict[str, Any] = Field(description="The study protocol.")


class Studies(ApiModel):
    data: list[Study]
    next: str | None = NEXT_PAGE_FIELD


def _build_columns(columns: tuple[exports.Field, ...]) -> dict[str, Any]:
    return {column.name: (_PYTHON_TYPES[column.kind] | None, Field(description=column.meaning)) for column in columns}


_NOT_SOURCE_COLUMNS = ("item", "ratings", "could_not_judge", "classifiers", "payload_sha256")
_SOURCE_COLUMNS = _build_columns(
    tuple(one for one in archive_files.ITEM_FIELDS if one.name not in _NOT_SOURCE_COLUMNS)
) | {"classifiers": (dict[str, bool] | None, Field(description="Verdicts of classifiers when the study opened."))}
Rating: Any = create_model("Rating", __base__=ApiModel, **_build_columns(exports.RATING_FIELDS))
Source: Any = create_model("Source", __base__=ApiModel, **_SOURCE_COLUMNS)


class Item(ApiModel):
    item: UUID = Field(description="Code of the item; it is random and does not reveal the source.")
    ratings: int = Field(description="Number of ratings that count; if sources are left out, without imported ratings.")
    could_not_judge: int = Field(description="Of these, ratings of raters who could not judge.")
    payload: dict[str, Any] | None = Field(
        description="What raters saw of the item; null until the study is unblinded."
    )
    context: dict[str, Any] | None = Field(
        description="The goal and earlier steps; empty if no display arm shows them."
    )
    source: Source | None = Field(description="Null before unblinding or without the scope items:unblinded.")


class Items(ApiModel):
    blinded: bool = Field(description="Whether the sources of items are left out.")
    data: list[Item]
    next: str | None = NEXT_PAGE_FIELD


class Ratings(ApiModel):
    blinded: bool = Field(description="Whether sources, notes and the items of imported ratings are left out.")
    data: list[Rating]
    next: str | None = NEXT_PAGE_FIELD


class Statistics(BaseModel):
    """The stored analysis, byte for byte the results.json that the study's page offers. docs/statistics.md describes each table."""

    model_config = ConfigDict(extra="allow")

    version: int
    subject: dict[str, Any]
    seed: int
    resamples: int
    data: dict[str, Any] = Field(description="Number and SHA-256 of the ratings behind the analysis.")
    tables: dict[str, Any]


class Comparison(ApiModel):
    first: str = Field(description="The short name of the first study.")
    second: str
    table: dict[str, Any] = Field(
        description="Same format as the table `contrasts` of the statistics: columns, rows, notes."
    )


class Pending(ApiModel):
    status: str = Field(description="Status of the job: pending, queued, running, waiting, failed or cancelled.")
    said: str
    job: str | None = Field(description="URL path of the job's page.")


class Verdict(ApiModel):
    classifier: str
    sufficient: bool


class Episode(ApiModel):
    code: UUID
    run: UUID
    experiment: str = Field(description="Short name of the experiment.")
    cast: str
    replicate: int
    mask: dict[str, Any] = Field(
        description="The steps that were hidden in the protocol that the agent was given; empty: it was given none."
    )
    counts: bool = Field(description="False if a retry has replaced this episode.")
    status: str
    reason: str = Field(description="Why it failed, is blocked or waits; empty if nothing is wrong.")
    steps: int
    max_steps: int
    seed: int
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    verdict: Verdict | None = Field(description="Verdict of the classifier on a submitted episode.")
    panel: list[Verdict] = Field(description="Verdicts of further classifiers, which do not affect the episode.")


class Episodes(ApiModel):
    data: list[Episode]
    next: str | None = NEXT_PAGE_FIELD


class ReplicationTask(ApiModel):
    """A replication task without its code and paper, and without reference values."""

    task: str = Field(description="Short name of the task.")
    name: str
    summary: str
    sha256: str = Field(description="Digest of everything in the task.")
    experiments: list[str] = Field(description="Short names of the laboratory experiments to which the study belongs.")
    packages: list[str]
    functions: list[dict[str, str]] = Field(description="Functions that can be hidden: id, path and name.")
    test_cases: list[dict[str, Any]] = Field(description="Experiments of the task: id, title and names of results.")
    invalid_reason: str = Field(description="Why the task cannot be ordered; empty if it can.")


class ReplicationTasks(ApiModel):
    data: list[ReplicationTask]
    next: str | None = NEXT_PAGE_FIELD


class CodeEpisode(ApiModel):
    """One attempt at a mask of a task, without steps, code, reported numbers and reference values."""

    code: UUID
    run: UUID
    task: str = Field(description="Short name of the task.")
    mask: str = Field(description="Key of the mask, such as u3-004.")
    functions: list[str] = Field(description="Ids of the hidden functions.")
    cast: str
    by_rules: bool = Field(description="True if the agent is rules: its outcome is no result of a language model.")
    conditions: dict[str, Any] = Field(description="What the agent sees, the profile, and the limits.")
    replicate: int
    counts: bool = Field(description="False if a retry has replaced this code episode.")
    status: str
    reason: str = Field(description="Why it failed, is blocked or waits; empty if nothing is wrong.")
    steps: int
    sandbox_seconds: float
    seed: int
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    outcome: str | None = Field(description="What the grading concludes; null until it is complete.")
    paper_pass: bool | None = Field(description="Whether all reported numbers are within 5 % of the reference.")
    measured: bool | None = Field(
        description="Whether the functions give the right numbers on the public data; null: not run."
    )
    robust: bool | None = Field(description="The same on secret data.")


class CodeEpisodes(ApiModel):
    data: list[CodeEpisode]
    next: str | None = NEXT_PAGE_FIELD


class Step(ApiModel):
    """One step, without prompts, replies or any part of the simulator's ledger."""

    number: int
    started_at: int = Field(description="Seconds since the start of the episode.")
    ended_at: int
    action: str
    parameters: dict[str, Any]
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]] = Field(
        description="Output materials; `replaces` is the input that an output continues."
    )
    observations: list[dict[str, Any]]
    accepted: bool
    rejected_by: str = Field(description="parser, catalogue or transition_model; empty if accepted.")
    rejected: str = Field(description="Reason of the rejection; empty if accepted.")
    checker: str | None = Field(description="The checker's verdict on the step; null: not checked.")


class Transcript(ApiModel):
    episode: UUID
    goal: str
    data: list[Step]
    next: str | None = NEXT_PAGE_FIELD
