"""Studies in which the token's user has a role."""

from typing import Any

from django.http import Http404
from ninja import Query, Router

from ratings.api import cursors, forms, tokens
from ratings.api.bearer import ApiRequest, reads
from ratings.api.cursors import GONE, CursorError, Window
from ratings.models import Study
from ratings.studies.progress import stopping

router = Router(tags=["studies"])


@reads(router, "/studies", "studies", ["studies:read"], forms.Studies, 400)
def studies(request: ApiRequest, window: Query[Window]) -> forms.Studies:
    """List the studies in which you have a role, newest first."""
    matches = tokens.studies(request.auth).order_by("-pk").defer("protocol", "guide")
    if last_row := cursors.read("studies", window.cursor):
        matches = matches.filter(pk__lt=_key(last_row[0]))
    rows, more = cursors.cut(list(matches[: window.limit + 1]), window.limit)
    next_url = cursors.following(request, "studies", window, [str(rows[-1].code)]) if more else None
    return forms.Studies(data=[forms.Study(**_columns(row)) for row in rows], next=next_url)


@reads(router, "/studies/{slug:slug}", "study", ["studies:read"], forms.WholeStudy, 404)
def study(request: ApiRequest, slug: str) -> forms.WholeStudy:
    """Return one study with its protocol and its progress."""
    row = own_study(request, slug)
    stop = stopping.look(row)
    progress = forms.Progress(
        items=row.items.count(), ratings=stop.given, wanted=stop.wanted, complete=stop.met, said=stop.said
    )
    return forms.WholeStudy(**_columns(row), guide=row.guide, progress=progress, protocol=row.protocol)


def own_study(request: ApiRequest, slug: str) -> Study:
    """Return the study if the token's user has a role in it and the token covers it. Raises Http404 otherwise."""
    if (study_row := tokens.studies(request.auth).filter(slug=slug).first()) is None:
        raise Http404
    return study_row


def _columns(row: Study) -> dict[str, Any]:
    names = [name for name in forms.Study.model_fields if name != "unblinded"]
    return {"unblinded": row.is_unblinded, **{name: getattr(row, name) for name in names}}


def _key(code: str) -> int:
    if (key := Study.objects.filter(code=code).values_list("pk", flat=True).first()) is None:
        # the study of the last row was deleted
        raise CursorError(GONE)
    return key
