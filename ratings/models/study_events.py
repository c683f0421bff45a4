"""The content of events in a study's log: one class for each event, with its fields and their types.

Content is data that the code may evaluate. `ratings.results.study_log` describes it in sentences, which nothing
parses. No content includes a person's name: accounts are stored by their number.
"""

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, Union

from pydantic import BaseModel, ConfigDict, Field, Strict, TypeAdapter, ValidationError

Count = Annotated[int, Field(ge=0)]
Account = Annotated[int, Field(ge=1)]
Texts = Annotated[tuple[str, ...], Strict(False)]  # JSON has lists only; the texts themselves stay strict
Pairs = Annotated[tuple[Annotated[tuple[str, str], Strict(False)], ...], Strict(False)]
LEGACY = "text"  # the only key of an event whose sentence could not be converted


class ContentError(ValueError):
    """The data of an event does not have the fields or types of its kind."""


class Content(BaseModel):
    """The base class of all event contents. They have exactly the declared fields and types, and cannot be changed."""

    # Validators are built when an event of the kind is first read or written, not in every process at its start.
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", defer_build=True)
    kind: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as they are stored."""
        return self.model_dump(mode="json")


class LegacyText(BaseModel):
    """A sentence of an earlier release that could not be converted. It is shown but not evaluated."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")
    text: str


class Created(Content):
    kind = "created"


class Edited(Content):
    """`part` is the step of the form that was saved, if the form was used."""

    kind = "edited"
    part: str = ""


class Duplicated(Content):
    """`source` is the slug of the study that was copied."""

    kind = "duplicated"
    source: str


class Opened(Content):
    """The size of the study at its opening.

    `left_out` items were not used because they are in an unblinded study. `shown` items come from an episode that an
    unblinded study of the other kind shows. Of the `cases` of a crossover, `identical_cases` were left out because
    both sources gave the identical outcome.
    """

    kind = "opened"
    items: Count
    raters: Count
    left_out: Count = 0
    shown: Count = 0
    identical_cases: Count = 0
    cases: Count = 0


class Paused(Content):
    kind = "paused"


class Resumed(Content):
    kind = "resumed"


class Closed(Content):
    kind = "closed"


class Reopened(Content):
    """`dealt` ratings were assigned to other raters; `left` ratings still have no rater."""

    kind = "reopened"
    dealt: Count = 0
    left: Count = 0


class Unblinded(Content):
    kind = "unblinded"


class GuideRevised(Content):
    kind = "guide"
    version: Count


class Invited(Content):
    kind = "invited"
    rater: str
    step: Literal["invited", "sign_in_again", "revoked"] = "invited"


class Reminded(Content):
    kind = "reminded"
    raters: Count


class Joined(Content):
    kind = "joined"
    rater: str


class Withdrawn(Content):
    """`dropped`: the rater's ratings no longer count."""

    kind = "withdrawn"
    rater: str
    dropped: bool
    dealt: Count = 0
    left: Count = 0


class Erased(Content):
    kind = "erased"
    rater: str


class Simulated(Content):
    kind = "simulated"
    raters: Texts
    seed: int


class RatersAdded(Content):
    """`items` were assigned to the new raters."""

    kind = "replanned"
    added: Texts
    items: Count


class RatersReplanned(Content):
    """`free` open rater places were replaced by `raters` new ones."""

    kind = "replanned"
    free: Count
    raters: Count


class ItemsAdded(Content):
    kind = "items added"
    items: Count
    left: Count = 0


class ItemsImported(Content):
    kind = "items imported"
    items: Count
    sources: Texts


class ImportsRemoved(Content):
    """All imported items were removed from the draft; a file that was imported before may be imported again."""

    kind = "items imported"
    removed: Count


class RatingsImported(Content):
    kind = "ratings imported"
    ratings: Count
    raters: Count


class QuarantineDecided(Content):
    """An item was released from quarantine or dropped. `digest` is the start of the payload's SHA-256.

    `things` are pairs of a name and what it denotes in the laboratory.
    """

    kind = "quarantine"
    decision: Literal["released", "dropped"]
    digest: str
    reason: str = ""
    things: Pairs = ()


class Audited(Content):
    kind = "audited"
    passed: bool


class InterimLook(Content):
    """An interim analysis, in which `shown` of the `sources` had enough ratings.

    It included `ratings` of the `planned` ratings; `ratings` is 0 before the first snapshot.
    """

    kind = "looked"
    ratings: Count
    planned: Count
    shown: Count
    sources: Count


class InterimLookBySource(Content):
    """An interim analysis of the first release, which had no snapshots."""

    kind = "looked"
    shown: Count
    sources: Count
    least: Count


class TableExported(Content):
    """A CSV file was exported. Earlier releases stored `filters_text` instead of `filters`."""

    kind = "exported"
    blinded: bool
    filters: dict[str, str] = {}
    filters_text: str = ""


class ArchiveExported(Content):
    """An archive was exported.

    `sha256` is the digest of the zip file, or of the file SHA256SUMS in a folder; "" if the archive was deleted.
    """

    kind = "exported"
    blinded: bool
    sha256: str
    of: Literal["zip", "SHA256SUMS"] = "zip"


class ApiExported(Content):
    """Ratings were read with the API token of this name."""

    kind = "exported"
    blinded: bool
    token: str


class MemberChanged(Content):
    """A role was granted or removed. `MembershipChange` stores the same change for authorisation, which never reads
    the log.

    `role` is "" if an earlier release removed a role without logging which.
    """

    kind = "member"
    account: Account
    role: Literal["admin", "analyst", ""]
    granted: bool


class MachineOrdered(Content):
    kind = "machine"
    rater: str
    name: str
    items: Count
    with_context: bool


class MachineRated(Content):
    """A job of a model rater has ended. `failed` has the number of items without an answer by reason."""

    kind = "machine"
    rater: str
    name: str
    rated: Count
    items: Count
    failed: dict[str, Annotated[int, Field(ge=0)]] = {}


class ItemsTakenBack(Content):
    """Items were reassigned because their raters can read them elsewhere. Only early releases stored the rater."""

    kind = "taken back"
    items: Count = 0
    incomplete: Count = 0
    left: Count = 0
    rater: str = ""


class PublicPageChanged(Content):
    kind = "public page"
    change: Literal["text", "on", "off", "link"]


CLASSES: tuple[type[Content], ...] = (
    Created, Edited, Duplicated, Opened, Paused, Resumed, Closed, Reopened, Unblinded, GuideRevised, Invited, Reminded,
    Joined, Withdrawn, Erased, Simulated, RatersAdded, RatersReplanned, ItemsAdded, ItemsImported, ImportsRemoved,
    RatingsImported, QuarantineDecided, Audited, InterimLook, InterimLookBySource, TableExported, ArchiveExported,
    ApiExported, MemberChanged, MachineOrdered, MachineRated, ItemsTakenBack, PublicPageChanged,
)  # fmt: skip
KINDS = tuple(dict.fromkeys(cls.kind for cls in CLASSES))


def parse_content(kind: str, data: Any) -> Content:
    """Return the content of an event of this kind. Raises ContentError for an unknown kind or field, or a wrong type."""
    if kind not in _UNIONS:
        raise ContentError(f"{kind!r} is not a kind of study event")
    try:
        return _get_adapter(kind).validate_python(data)
    except ValidationError as error:
        # A union of classes reports an error for each of them; the first one is of the current class.
        first = error.errors(include_url=False)[0]
        location = ".".join(map(str, first["loc"])) or "data"
        raise ContentError(f"{kind}: {location}: {first['msg']}") from error


def load_content(kind: str, data: Any) -> Content | LegacyText:
    """Return stored content, which may be a sentence of an earlier release. Raises ContentError for anything else."""
    if isinstance(data, Mapping) and set(data) == {LEGACY} and isinstance(data[LEGACY], str):
        return LegacyText(text=data[LEGACY])
    return parse_content(kind, data)


# Unions of tuples, which type checkers cannot follow.
_UNIONS: dict[str, Any] = {kind: Union[tuple(cls for cls in CLASSES if cls.kind == kind)] for kind in KINDS}  # noqa: UP007


@cache
def _get_adapter(kind: str) -> TypeAdapter[Content]:
    return TypeAdapter(_UNIONS[kind])
