"""Two floors with the same requests as a rating: `floor` renders the rater's own templates, `least` a page of a few lines.

After an answer, htmx receives the next item in the same response; a browser without scripts is redirected to it.
"""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseForbidden
from django.shortcuts import redirect, render
from django.urls import include, path
from django.utils import timezone

from bench.floor.models import Given
from ratings.blinding import item_view
from ratings.models import Item, Study
from ratings.models.studies import TRANSITION
from ratings.rating.next_item import Progress
from ratings.web.rater.rating_form import RatingForm
from ratings.web.rater.rating_page import SavedTime

_STUDY = Study(
    name="floor", kind=TRANSITION, question="Is the outcome plausible?", protocol={"display": {"calculator": True}}
)
ItemRenderer = Callable[[HttpRequest, Item], HttpResponse]


def make_item_view(
    render_item: ItemRenderer, items: QuerySet[Item], name: str
) -> Callable[[HttpRequest, int], HttpResponse]:
    """Return the view of one item: GET shows it, POST inserts the answer and continues with the next."""

    def item_view(request: HttpRequest, number: int) -> HttpResponse:
        if not request.user.is_authenticated:
            return HttpResponseForbidden()
        if request.method == "GET":
            return render_item(request, items.get(pk=number))
        Given.objects.create(
            item=number, user=request.user.pk, verdict=request.POST["verdict"] == "yes", confidence=request.POST["confidence"],
            submission_id=request.POST["submission_id"], at=timezone.now(),
        )  # fmt: skip
        next_url = f"/{name}/{number + 1}/"
        if "HX-Request" not in request.headers:
            return redirect(next_url)
        response = render_item(request, items.get(pk=number + 1))
        response["HX-Push-Url"] = next_url
        return response

    return item_view


def render_rating_page(request: HttpRequest, item: Item) -> HttpResponse:
    """Render the rater's page, or for htmx its card, from the same templates; nothing is cached."""
    partial = "HX-Request" in request.headers
    context: dict[str, Any] = {
        "study": _STUDY, "rater": {"code": uuid4()}, "progress": Progress(1, 60), "partial": partial, "code": uuid4(),
        "form": RatingForm(_STUDY), "submission_id": uuid4(), "action": request.path, "stage": "final", "interface": "3", "single_keys": True,
        "saved": SavedTime.from_time(timezone.now()), "previous": {"code": uuid4()}, "marks": "off",
    }  # fmt: skip
    context["item"] = render(request, "ratings/_item.html", item_view.build_item_view(item.payload)).content.decode()
    return render(request, "ratings/_rating_card.html" if partial else "ratings/rate.html", context)


def render_least_page(request: HttpRequest, item: Item) -> HttpResponse:
    return render(request, "floor/item.html", {"item": item, "submission_id": uuid4()})


urlpatterns = [
    path("floor/<int:number>/", make_item_view(render_rating_page, Item.objects.all(), "floor")),
    path("least/<int:number>/", make_item_view(render_least_page, Item.objects.only("code"), "least")),
    path("", include("wetbench_site.urls")),  # the templates link to these addresses; they are never requested
]
