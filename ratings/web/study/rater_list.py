"""The list of raters: its search, filter and order, which are part of the URL, and its page."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone

from ratings.models import Rater
from ratings.protocol import PlanError, study_protocol
from ratings.raters import active_time, invitations, mailings, rater_overview
from ratings.raters.rater_overview import GROUPS, RaterRow
from ratings.studies import StudyError
from ratings.web.decorators import StudyRequest

PER_PAGE = 200  # as many as a study can have places, so that most studies are on one page


class InviteForm(forms.Form):
    """Pasted e-mail addresses; `mailings` checks them line by line."""

    addresses = forms.CharField(
        label="E-mail addresses",
        max_length=20_000,
        help_text="One per line, or separated by commas; “Name <address>” also works. Each address gets an open rater place and a personal link; at most 200 at a time.",
        widget=forms.Textarea(attrs={"rows": 5, "autocomplete": "off", "spellcheck": "false"}),
    )


class AddRatersForm(forms.Form):
    raters = forms.IntegerField(label="Number of places", min_value=1, max_value=study_protocol.MAX_RATERS, initial=1)


class SortableColumn(NamedTuple):
    """A column of the list: its heading, its key in the URL, its CSS class, and the value by which raters are sorted."""

    title: str
    key: str
    style: str
    value: Callable[[RaterRow], Any]


COLUMNS = (
    SortableColumn("Rater", "rater", "", lambda row: row.number),
    SortableColumn("Status", "status", "", lambda row: row.status),
    SortableColumn("Done", "done", "col-progress", lambda row: row.done),
    SortableColumn("Median time", "median", "num", lambda row: row.median_seconds),
    SortableColumn("Active time", "active", "num", lambda row: row.active_seconds),
    SortableColumn("Last activity", "activity", "", lambda row: row.last_seen),
)
_VALUES = {column.key: column.value for column in COLUMNS}


class FilterForm(forms.Form):
    """The search, the filter and the order of the list. Values that are not offered are ignored."""

    q = forms.CharField(label="Search", required=False, max_length=100)
    state = forms.ChoiceField(label="Show", required=False, choices=[("", "all raters"), *GROUPS.items()])
    sort = forms.ChoiceField(
        label="Sort by", required=False,
        choices=[(f"{sign}{column.key}", f"{column.title}{', descending' if sign else ''}") for column in COLUMNS for sign in ("", "-")],
    )  # fmt: skip
    q.widget.attrs |= {"type": "search", "autocomplete": "off"}


class ListState(NamedTuple):
    """What the list shows. It is part of the URL."""

    q: str = ""
    state: str = ""
    sort: str = "rater"

    def build_query(self, **changes: str) -> str:
        """Return the query of a URL, without values that are the default; "" if all are."""
        values = self._replace(**changes)._asdict()
        return urlencode(
            {name: value for name, value in values.items() if value and (name, value) != ("sort", "rater")}
        )

    @property
    def is_filtered(self) -> bool:
        return bool(self.q or self.state)


class Heading(NamedTuple):
    """The heading of a column, with the query that sorts by it and its `aria-sort`."""

    title: str
    style: str
    query: str
    order: str


def parse_list_state(parameters: QueryDict) -> ListState:
    """Return the state of the list in a URL, without what is not valid."""
    form = FilterForm(parameters)
    form.is_valid()
    values = form.cleaned_data
    return ListState(values.get("q", "").strip(), values.get("state", ""), values.get("sort") or "rater")


def select_rows(rows: Sequence[RaterRow], state: ListState, with_people: bool) -> list[RaterRow]:
    """Return the rows that match, in their order. Names and addresses are searched only `with_people`."""
    word = state.q.casefold()

    def matches(row: RaterRow) -> bool:
        texts = [row.label, row.status]
        if with_people and row.is_awaited and row.invitation:
            texts += [row.invitation.email, row.invitation.name]
        return any(word in text.casefold() for text in texts) and (not state.state or state.state in row.groups)

    selected = [row for row in rows if matches(row)]
    value, is_descending = _VALUES[state.sort.removeprefix("-")], state.sort.startswith("-")
    # Rows without a value are last in both directions.
    known = sorted((row for row in selected if value(row) is not None), key=value, reverse=is_descending)
    return known + [row for row in selected if value(row) is None]


def list_headings(state: ListState) -> list[Heading]:
    """Return the headings; a second click on the current one reverses the order."""
    orders = {column.key: "ascending" for column in COLUMNS if state.sort == column.key}
    orders |= {column.key: "descending" for column in COLUMNS if state.sort == f"-{column.key}"}
    return [
        Heading(
            column.title,
            column.style,
            state.build_query(sort=f"-{column.key}" if orders.get(column.key) == "ascending" else column.key),
            orders.get(column.key, "none"),
        )
        for column in COLUMNS
    ]


def report_study_errors(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Make a view that returns to the list of raters with the message of an error that the study's state causes."""

    @wraps(view)
    def view_or_message(request: StudyRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except (StudyError, PlanError) as error:
            messages.error(request, str(error))
            return redirect_to_list(request)

    return view_or_message


def read_back_query(request: StudyRequest) -> str:
    """Return the query of the list that a form was sent from, rebuilt from its valid parts."""
    return parse_list_state(QueryDict(request.POST.get("back", ""))).build_query()


def redirect_to_list(request: StudyRequest) -> HttpResponse:
    """Redirect to the list of raters, with the search and filter that the form was sent from."""
    query = read_back_query(request)
    url = reverse("ratings:raters", args=[request.study.slug])
    return redirect(f"{url}?{query}" if query else url)


def render_list(
    request: StudyRequest, invite: InviteForm | None = None, raters: AddRatersForm | None = None, status: int = 200
) -> HttpResponse:
    """Render the list with these forms, which may contain errors."""
    study, may_change = request.study, request.role != "analyst"
    state = parse_list_state(request.GET)
    rows = rater_overview.list_raters(study)
    selected = select_rows(rows, state, with_people=may_change)
    page = Paginator(selected, PER_PAGE).get_page(request.GET.get("page"))
    people = [row for row in rows if row.is_person]
    context: dict[str, Any] = {
        "study": study,
        "rows": rows,
        "page": page,
        "state": state,
        "query": state.build_query(),
        "headings": list_headings(state),
        "filter": FilterForm(initial=state._asdict()),
        "active_text": active_time.format_duration(sum(row.active_seconds or 0 for row in people)),
        "n_people": len(people),
        "n_fast": sum(bool(row.too_fast) for row in rows),
        "n_idle": sum(row.is_idle for row in rows),
        "may_change": may_change,
        "role": request.role,
        "under_way": study.status in ("open", "paused"),
        # Analysts cannot invite, so these two queries are not run for them.
        "free": mailings.open_rater_places(study).count() if may_change else None,
        "last_reminder": study.events.filter(kind="reminded").last() if may_change else None,
        "invite": invite or InviteForm(),
        "raters": raters or AddRatersForm(),
        "now": timezone.now(),
    }
    return render(request, "ratings/people.html", context, status=status)


def get_rater_by_label(request: StudyRequest, label: str) -> Rater:
    """Return the rater of this study with the label of the URL, or raise Http404."""
    try:
        return invitations.get_rater(request.study, label)
    except StudyError as error:
        raise Http404 from error
