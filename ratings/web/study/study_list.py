"""The list of studies: sorted, filtered and searched by its URL; several drafts can be deleted at once."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.core.paginator import Paginator
from django.db.models import Count, Max, OuterRef, Q, QuerySet, Subquery, Sum, Value
from django.db.models.functions import Coalesce, Greatest
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path
from django.views.decorators.http import require_POST, require_safe

from ratings.models import Assignment, Item, Membership, Rater, Study, StudyEvent
from ratings.studies import StudyError, access, lifecycle
from ratings.web.decorators import StudyRequest, staff_or_member
from wetbench_site.sorted_lists import Column, Sorting, match_words
from wetbench_site.text import format_count, is_storable, join_words

PER_PAGE = 25
_COLUMNS = (
    Column("name", "Study", ("name",)),
    Column("kind", "Kind", ("kind",)),
    Column("status", "Status", ("status",)),
    Column("items", "Items", is_number=True),
    Column("raters", "Raters", ("n_raters",), falls_first=True, is_number=True),
    Column("ratings", "Ratings", ("n_ratings",), falls_first=True),
    Column("activity", "Last activity", ("last_activity",), falls_first=True),
    Column("created", "Created", ("created_at",), falls_first=True),
)


class StudyFilter(forms.Form):
    """Filters of the list; values that it does not offer are ignored."""

    q = forms.CharField(label="Name", required=False, max_length=100)
    status = forms.ChoiceField(
        label="Status",
        required=False,
        choices=[("", "Any"), *((one, "Collecting" if one == "open" else one.capitalize()) for one in Study.MOVES)],
    )
    kind = forms.ChoiceField(
        label="Kind", required=False, choices=[("", "Any"), *((kind, name.capitalize()) for kind, name in Study.KINDS)]
    )
    role = forms.ChoiceField(
        label="Your role", required=False, choices=[("", "Any"), ("admin", "Study admin"), ("analyst", "Analyst")]
    )
    q.widget = forms.TextInput(attrs={"type": "search", "autocomplete": "off"})

    def build_condition(self, user: User) -> Q:
        """Return the condition for the studies to list; an empty one if nothing is filtered."""
        self.is_valid()
        values = self.cleaned_data
        condition = Q(**{name: values[name] for name in ("status", "kind") if values.get(name)})
        if role := values.get("role"):
            members = Q(pk__in=Membership.objects.filter(user=user, role=role).values("study"))
            condition &= members | Q(created_by=user) if role == "admin" and user.is_staff else members
        return condition & match_words(values.get("q", ""), "name", "slug")


@staff_or_member
@require_safe
def list_studies(request: StudyRequest) -> HttpResponse:
    """List the studies in which this user has a role. Staff can create new ones."""
    form, sorting = StudyFilter(request.GET), Sorting(_COLUMNS, request.GET, "-created")
    condition = form.build_condition(request.user)
    listed = access.list_studies(request.user).filter(condition).defer("protocol", "guide")
    # What only the order needs is not computed for studies of other pages.
    if sorting.column.key in _ANNOTATIONS:
        listed = listed.annotate(**{sorting.column.fields[0]: _ANNOTATIONS[sorting.column.key]()})
    page = Paginator(sorting.order_rows(listed), PER_PAGE).get_page(request.GET.get("page"))
    studies = add_list_counts(page)
    managed = set(
        access.list_managed_studies(request.user)
        .filter(pk__in=[one.pk for one in studies])
        .values_list("pk", flat=True)
    )
    for study in studies:
        study.may_delete = study.is_draft and study.pk in managed
    context = {
        "page": page,
        "studies": studies,
        "may_make": request.user.is_staff,
        "form": form,
        "sorting": sorting,
        "filtered": bool(condition),
        "select": any(study.may_delete for study in studies),
    }
    return render(request, "ratings/studies.html", context)


def _count_raters() -> Coalesce:
    # Places that nobody has taken are no raters; simulated and imported ones have no user.
    taken = Rater.objects.filter(study=OuterRef("pk")).filter(
        Q(user__isnull=False) | Q(simulated=True) | ~Q(imported_as="")
    )
    return _count_by_study(taken, Count("pk"))


def _count_ratings() -> Coalesce:
    return _count_by_study(Rater.objects.filter(study=OuterRef("pk"), dropped=False), Sum("counted_items"))


def _count_by_study(raters: QuerySet[Rater], number: Count | Sum) -> Coalesce:
    return Coalesce(Subquery(raters.order_by().values("study").annotate(number=number).values("number")), Value(0))


def _find_last_activity() -> Greatest:
    """Return the time of the last event in the log or the last answer; that of the creation if there is neither."""
    # One step in an index for each rater, however many answers they gave.
    answered = Assignment.objects.filter(rater=OuterRef("pk"), answered_at__isnull=False).order_by("-answered_at")
    raters = Rater.objects.filter(study=OuterRef("pk")).annotate(last=Subquery(answered.values("answered_at")[:1]))
    last_answer = raters.order_by().values("study").annotate(of_all=Max("last")).values("of_all")
    last_event = StudyEvent.objects.filter(study=OuterRef("pk")).order_by("-at").values("at")
    return Greatest(
        Coalesce(Subquery(last_event[:1]), "created_at"), Coalesce(Subquery(last_answer), "created_at"), "created_at"
    )


_ANNOTATIONS: Mapping[str, Callable[[], Any]] = {
    "raters": _count_raters,
    "ratings": _count_ratings,
    "activity": _find_last_activity,
}


def add_list_counts(rows: Iterable[Study]) -> list[Any]:
    """Return these studies with the values that a list shows, in three more queries. Only ratings that count are counted."""
    studies = list(rows)
    keys = [study.pk for study in studies]
    # Grouped queries: annotating all counts on one query would multiply items by ratings.
    # Rows and not keys: PostgreSQL then reads nothing but the index on the study.
    items = dict(Item.objects.filter(study__in=keys).order_by().values_list("study").annotate(n=Count("*")))
    raters = Rater.objects.filter(study__in=keys, dropped=False).order_by().values_list("study")
    simulated = Sum("counted_items", filter=Q(simulated=True), default=0)
    counts_by_study = {key: n for key, *n in raters.annotate(n=Sum("counted_items"), n_simulated=simulated)}
    columns = Study.objects.filter(pk__in=keys).annotate(taken=_count_raters(), last=_find_last_activity())
    others = {key: n for key, *n in columns.order_by().values_list("pk", "taken", "last")}
    for study in studies:
        study.n_items = items.get(study.pk, 0)  # type: ignore[attr-defined]  # set like an annotation
        study.wanted = study.n_items * study.ratings_per_item  # type: ignore[attr-defined]
        study.given, study.simulated = counts_by_study.get(study.pk, (0, 0))  # type: ignore[attr-defined]
        # A draft can be deleted between the queries.
        study.taken, study.last_active = others.get(study.pk, (0, study.created_at))  # type: ignore[attr-defined]
    return studies


@staff_or_member
@require_POST
def delete_drafts(request: StudyRequest) -> HttpResponse:
    """Ask for confirmation, then delete the chosen drafts. Studies that are no drafts of this user are left as they are."""
    managed = access.list_managed_studies(request.user)
    if not (request.user.is_staff or managed.exists()):
        raise Http404
    chosen = [slug for slug in request.POST.getlist("study")[:PER_PAGE] if is_storable(slug)]
    drafts = managed.filter(status="draft", slug__in=chosen).defer("protocol", "guide").order_by("-created_at", "-pk")
    if not drafts:
        messages.error(request, "Select at least one draft. Only drafts can be deleted.")
        return redirect("ratings:studies")
    if request.POST.get("confirmed") != "yes":
        return render(request, "ratings/drafts_delete.html", {"drafts": drafts})
    deleted, problems = [], []
    for draft in drafts:
        try:
            lifecycle.delete_draft(draft)
            deleted.append(draft.name)
        except StudyError as error:  # opened in the meantime
            problems.append(str(error))
    for problem in problems:
        messages.error(request, problem)
    if deleted:
        messages.success(request, f"{format_count(len(deleted), 'draft')} deleted: {join_words(deleted)}.")
    return redirect("ratings:studies")


urls: list[URLPattern] = [
    path("studies/", list_studies, name="studies"),
    path("drafts/delete/", delete_drafts, name="delete_drafts"),
]
