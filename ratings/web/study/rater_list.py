"""The list of raters: its search, filter and order, which are part of the URL, and its page."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse

from ratings.models import Rater
from ratings.protocol import PlanError
from ratings.raters import active_time, invitations, mailings, rater_overview
from ratings.raters.rater_overview import RaterRow
from ratings.studies import StudyError
from ratings.web.decorators import StudyRequest
from ratings.web.study.rater_forms import AddRatersForm, FilterForm, InviteForm
from wetbench_site.sorted_lists import SORT, Column, Sorting

PER_PAGE = 200  # as many as a study can have places, so that most studies are on one page


COLUMNS = (
    Column("rater", "Rater", ("number",)),
    Column("status", "Status", ("status",)),
    Column("done", "Done", ("done",), falls_first=True),
    Column("median", "Median time", ("median_seconds",), is_number=True),
    Column("active", "Active time", ("active_seconds",), falls_first=True, is_number=True),
    Column("activity", "Last activity", ("last_seen",), falls_first=True),
)


class ListState(NamedTuple):
    """What the list shows. It is part of the URL."""

    q: str
    state: str
    sorting: Sorting

    @property
    def query(self) -> str:
        """The query of the URL, without values that are the default; "" if all are."""
        order = "" if self.sorting.value == self.sorting.default else self.sorting.value
        values = {"q": self.q, "state": self.state, SORT: order}
        return urlencode({name: value for name, value in values.items() if value})

    @property
    def is_filtered(self) -> bool:
        return bool(self.q or self.state)


def parse_list_state(parameters: QueryDict) -> ListState:
    """Return the state of the list in a URL, without what is not valid."""
    form = FilterForm(parameters)
    form.is_valid()
    values = form.cleaned_data
    return ListState(values.get("q", "").strip(), values.get("state", ""), Sorting(COLUMNS, parameters, "rater"))


def select_rows(rows: Sequence[RaterRow], state: ListState, with_people: bool) -> list[RaterRow]:
    """Return the rows that match, in their order. Names and addresses are searched only `with_people`."""
    words, field = state.q.casefold().split(), state.sorting.column.fields[0]

    def matches(row: RaterRow) -> bool:
        texts = [row.label, row.status]
        if with_people and row.is_awaited and row.invitation:
            texts += [row.invitation.email, row.invitation.name]
        text = "\n".join(texts).casefold()
        return all(word in text for word in words) and (not state.state or state.state in row.groups)

    selected = [row for row in rows if matches(row)]
    known = [row for row in selected if getattr(row, field) is not None]
    known.sort(key=lambda row: (getattr(row, field), row.number), reverse=state.sorting.is_descending)
    # Rows without a value are last in both directions.
    return known + [row for row in selected if getattr(row, field) is None]


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
    return parse_list_state(QueryDict(request.POST.get("back", ""))).query


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
    active_seconds = sum(row.active_seconds or 0 for row in people)
    context: dict[str, Any] = {
        "study": study,
        "rows": rows,
        "page": page,
        "state": state,
        "sorting": state.sorting,
        "filter": FilterForm(initial=state._asdict()),
        "active_seconds": active_seconds,
        "active_text": active_time.format_duration(active_seconds),
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
    }
    return render(request, "ratings/people.html", context, status=status)


def get_rater_by_label(request: StudyRequest, label: str) -> Rater:
    """Return the rater of this study with the label of the URL, or raise Http404."""
    try:
        return invitations.get_rater(request.study, label)
    except StudyError as error:
        raise Http404 from error
