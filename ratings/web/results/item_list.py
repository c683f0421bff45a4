"""The list of a study's items after unblinding, with their sources and verdicts: sorted, filtered and searched by its URL."""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.core.paginator import Paginator
from django.db.models import F, Q
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import URLPattern, path, reverse
from django.views.decorators.http import require_safe

from ratings.models import ItemSource, Study
from ratings.protocol import reference
from ratings.results import rating_rows
from ratings.web.decorators import StudyRequest, study_page
from wetbench_site.sorted_lists import Column, Sorting, match_words

PER_PAGE = 50
_SHOWN: Mapping[str, tuple[str, Q]] = {
    "disputed": ("Disputed: most raters contradict the reference", Q(is_disputed=True)),
    "split": ("Raters disagree", Q(is_split=True)),
    "unsure": ("Somebody could not judge", Q(given__gt=F("judged"))),
    "unrated": ("Not rated", Q(given=0)),
}


def _build_columns(answer: str) -> tuple[Column, ...]:
    return (
        Column("name", "Item", ("name",)),
        Column("source", "Source", ("source__label", "source__perturbation")),
        Column("reference", "Reference", ("source__reference",)),
        Column("truth", "Truth", ("source__truth",), has_nulls=True),
        Column("experiment", "Experiment", ("source__experiment", "name")),
        # Of two items with the same share, the one with more ratings tells more.
        Column("yes", f"Rated {answer}", ("share", "judged"), falls_first=True, is_number=True, has_nulls=True),
        Column("given", "Ratings", ("given",), falls_first=True, is_number=True),
    )


class ItemFilter(forms.Form):
    """Which items to list. Blank fields, and values that the study does not have, filter nothing."""

    q = forms.CharField(
        label="Search", required=False, widget=forms.TextInput(attrs={"type": "search", "autocomplete": "off"})
    )
    show = forms.ChoiceField(label="Items", required=False)
    source = forms.ChoiceField(label="Source", required=False)
    reference = forms.ChoiceField(label="Reference", required=False)
    experiment = forms.ChoiceField(label="Experiment", required=False)

    def __init__(self, study: Study, data: Any) -> None:
        super().__init__(data)
        sources = ItemSource.objects.filter(item__study=study).order_by()
        self._set_choices("show", "All", [(key, title) for key, (title, _) in _SHOWN.items()])
        for name, column in (("source", "label"), ("experiment", "experiment")):
            values = sorted(value for value in sources.values_list(column, flat=True).distinct() if value)
            self._set_choices(name, "All", [(value, value) for value in values])
        known = [(value, value) for value, _ in reference.CHOICES if value]
        self._set_choices("reference", "All", [*known, ("unknown", "not known")])

    def _set_choices(self, name: str, blank: str, choices: list[tuple[str, str]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [("", blank), *choices]

    @property
    def condition(self) -> Q:
        """The condition of all filters together."""
        self.full_clean()
        values = self.cleaned_data
        condition = match_words(values.get("q", ""), "name", "source__action", "code")
        if show := values.get("show"):
            condition &= _SHOWN[show][1]
        if source := values.get("source"):
            condition &= Q(source__label=source)
        if chosen := values.get("reference"):
            condition &= Q(source__reference="" if chosen == "unknown" else chosen)
        if experiment := values.get("experiment"):
            condition &= Q(source__experiment=experiment)
        return condition

    @property
    def is_filtering(self) -> bool:
        return any(self.cleaned_data.get(name) for name in self.fields)


@study_page("admin", "analyst")
@require_safe
def list_items(request: StudyRequest) -> HttpResponse:
    """Show fifty items per page. While the study is sealed, the page explains what it will contain, and reads no item."""
    study = request.study
    context: dict[str, Any] = {"study": study, "may_run": request.role != "analyst", "sealed": not study.is_unblinded}
    if study.is_unblinded:
        form = ItemFilter(study, request.GET)
        sorting = Sorting(_build_columns(study.answer_labels[0].lower()), request.GET, "name")
        rows: Any = rating_rows.list_items(study)  # stubs do not know the annotations
        page = Paginator(sorting.order_rows(rows.filter(form.condition)), PER_PAGE).get_page(request.GET.get("page"))
        context |= {
            "form": form,
            "sorting": sorting,
            "filtered": form.is_filtering,
            "clear": reverse("ratings:items", args=[study.slug]),
            "page": page,
            "only": form.cleaned_data.get("show") == "disputed",
            "n_disputed": rows.filter(is_disputed=True).count(),
        }
    return render(request, "ratings/items.html", context)


urls: list[URLPattern] = [path("studies/<slug:slug>/items/", list_items, name="items")]
