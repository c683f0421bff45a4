"""What the API answers, form by form. Null: not known, does not apply, or is sealed."""

from datetime import date, datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, create_model

from ratings.exchange.archive import fields

_TYPES: dict[str, Any] = {
    "text": str, "count": int, "number": float, "flag": bool, "moment": datetime, "list": list[str],
}  # fmt: skip
NEXT = Field(description="The address of the next page, on the same host; null: this was the last.")


class Form(BaseModel):
    model_config = ConfigDict(extra="forbid", json_schema_serialization_defaults_required=True)


class Study(Form):
    slug: str = Field(description="Its name in addresses.", examples=["titration-pilot"])
    code: UUID
    name: str
    kind: str = Field(description="transition_plausibility or evidence_sufficiency.")
    question: str
    status: str = Field(description="draft, open, paused, closed or unblinded.")
    unblinded: bool = Field(description="Whether sources and statistics can be read.")
    ratings_per_item: int
    deadline: date | None
    created_at: datetime
    opened_at: datetime | None
    closed_at: datetime | None
    unblinded_at: datetime | None


class Progress(Form):
    """As on the study's page: repeats, surplus ratings and those of dropped raters are not counted."""

    items: int
    ratings: int = Field(description="Ratings that count.")
    wanted: int
    complete: bool = Field(description="Whether the study's own stop rule is met.")
    said: str


class WholeStudy(Study):
    guide: str = Field(description="The study's own instructions to raters.")
    progress: Progress
    protocol: dict[str, Any] = Field(description="The study document.")


class Studies(Form):
    data: list[Study]
    next: str | None = NEXT


def _columns(named: tuple[fields.Field, ...]) -> dict[str, Any]:
    return {one.name: (_TYPES[one.kind] | None, Field(description=one.meaning)) for one in named}


_COUNTS = ("item", "ratings", "could_not_judge")
Rating: Any = create_model("Rating", __base__=Form, **_columns(fields.RATINGS))
Source: Any = create_model(
    "Source",
    __base__=Form,
    **(
        _columns(tuple(one for one in fields.ITEMS if one.name not in (*_COUNTS, "classifiers", "payload_sha256")))
        | {"classifiers": (dict[str, bool] | None, Field(description="What classifiers said when the study opened."))}
    ),
)


class Item(Form):
    item: UUID = Field(description="Its code; random, it says nothing of where the item came from.")
    ratings: int = Field(
        description="Ratings that count; where sources are left out, without those that were imported."
    )
    could_not_judge: int = Field(description="Of these, raters who could not judge.")
    payload: dict[str, Any] | None = Field(description="What raters saw of it; null until the study is unblinded.")
    context: dict[str, Any] | None = Field(description="The goal and earlier steps; empty where no arm shows them.")
    source: Source | None = Field(description="Null until unblinding, and without the scope items:unblinded.")


class Items(Form):
    blinded: bool = Field(description="Whether where items came from is left out.")
    data: list[Item]
    next: str | None = NEXT


class Ratings(Form):
    blinded: bool = Field(description="Whether where items came from, notes and imported ratings' items are left out.")
    data: list[Rating]
    next: str | None = NEXT


class Statistics(BaseModel):
    """The analysis as it is stored, byte for byte the page's results.json; docs/statistics.md says what each table holds."""

    model_config = ConfigDict(extra="allow")

    version: int
    subject: dict[str, Any]
    seed: int
    resamples: int
    data: dict[str, Any] = Field(description="Counts of the ratings it is of, and the SHA-256 of them.")
    tables: dict[str, Any]


class Comparison(Form):
    first: str = Field(description="The short name of the first study.")
    second: str
    table: dict[str, Any] = Field(description="As the table `contrasts` of the statistics: columns, rows, notes.")


class Pending(Form):
    status: str = Field(description="Of the job: pending, queued, running, waiting, failed or cancelled.")
    said: str
    job: str | None = Field(description="The page of the job.")


class Verdict(Form):
    classifier: str
    sufficient: bool


class Episode(Form):
    code: UUID
    run: UUID
    experiment: str = Field(description="Its short name.")
    cast: str
    replicate: int
    counts: bool = Field(description="False once a retry took this replicate's place.")
    status: str
    reason: str = Field(description="Why it failed, is held or waits; empty while nothing is wrong.")
    steps: int
    max_steps: int
    seed: int
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    verdict: Verdict | None = Field(description="What the classifier said of a submitted episode.")
    panel: list[Verdict] = Field(description="Verdicts of others, which end nothing.")


class Episodes(Form):
    data: list[Episode]
    next: str | None = NEXT


class Step(Form):
    """Nothing of a prompt, a reply or the simulator's ledger is in here."""

    number: int
    started_at: int = Field(description="Seconds since the episode began.")
    ended_at: int
    action: str
    parameters: dict[str, Any]
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]] = Field(
        description="Materials handed back or new; `replaces` names the input it was."
    )
    observations: list[dict[str, Any]]
    accepted: bool
    rejected_by: str = Field(description="parser, catalogue or transition_model; empty if accepted.")
    rejected: str = Field(description="Why; empty if accepted.")
    checker: str | None = Field(description="The checker's verdict on the step; null: not checked.")


class Transcript(Form):
    episode: UUID
    goal: str
    data: list[Step]
    next: str | None = NEXT
