"""The pages that bench/million.py measures, requested in the process that runs the site."""

import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, NamedTuple


class Page(NamedTuple):
    """`status` is the study's status during the request; `promised`: whether the ratio has a limit.

    `max_seconds`: the limit of the page of the study with 50,000 ratings or, if it is of no study, at a million ratings.
    Each request of such a page finds the caches of its process empty.
    """

    name: str
    status: str
    promised: bool = True
    max_seconds: float | None = None


class Measurement(NamedTuple):
    seconds: float
    queries: int


PAGES = (
    Page("next item", "open"),
    Page("rating, answered with the next", "open"),
    Page("study, open", "open"),
    Page("raters", "open"),
    Page("rater's start page", "open"),
    Page("list of studies", "open", max_seconds=0.020),
    Page("study, closed", "closed"),
    Page("study, unblinded", "unblinded", max_seconds=0.150),
    Page("items, unblinded", "unblinded", promised=False),
)


def serve_requests(url: str, studies: list[tuple[str, int, int]], pipe: Connection, folder: str) -> None:
    """Create the site unless it exists, then answer (page, study) with the time of the request until the process is terminated."""
    os.environ.update(DATABASE_URL=url, DJANGO_SETTINGS_MODULE="wetbench_site.settings", WETBENCH_VAR_DIR=folder)
    import django

    django.setup()
    pipe.send(create_site(studies))
    browsers: dict[str, Any] = {}
    while True:
        pipe.send(measure_page(*pipe.recv(), browsers))


def create_database(url: str, name: str) -> None:
    """Create another database in the same cluster."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())


def create_site(studies: list[tuple[str, int, int]]) -> str:
    from django.core.management import call_command

    from bench import bulk_site
    from ratings.models import Rating, Study

    call_command("migrate", verbosity=0)
    started = time.monotonic()
    if not Study.objects.exists():
        bulk_site.create_site([bulk_site.StudyPlan(*study) for study in studies])
    return (
        f"{Rating.objects.count():,} ratings in {len(studies)} studies, created in {time.monotonic() - started:.0f} s"
    )


def measure_page(name: str, slug: str, browsers: dict[str, Any]) -> Measurement:
    from django.core.cache import cache

    from ratings.models import Study

    page = next(one for one in PAGES if one.name == name)
    study = Study.objects.get(slug=slug)
    # Directly in the database: the studies of this site have not gone through their life cycle.
    if study.status != page.status:
        Study.objects.filter(pk=study.pk).update(status=page.status)
        study.refresh_from_db()
        if page.status == "unblinded":
            store_analysis(study)
    if page.max_seconds:
        cache.clear()
    return REQUESTS[name](study, browsers)


def store_analysis(study: Any) -> None:
    """Store the analysis with its figures and HTML, as the job of the first visit does. bench.statistics measures it."""
    from ratings.results.analyses import analysis_job, store
    from ratings.results.analyses.filters import Filters
    from ratings.web.results import rendered_results

    analysis = store.compute_analysis(study, Filters())
    analysis_job.draw_figures(analysis)
    rendered_results.load_results(study, analysis, Filters(), is_final=True)


def get_client(user: Any, clients: dict[str, Any]) -> Any:
    """Return a client that is signed in as this user."""
    from django.test import Client

    if user.username not in clients:
        # Browsers accept compressed pages, and compressing takes time as well.
        clients[user.username] = Client(SERVER_NAME="localhost", HTTP_ACCEPT_ENCODING="gzip")
        clients[user.username].force_login(user)
    return clients[user.username]


@contextmanager
def measure_request(measurements: list[Measurement]) -> Iterator[None]:
    from django.db import connection

    count = 0

    def count_query(execute: Callable[..., Any], *args: Any) -> Any:
        nonlocal count
        count += 1
        return execute(*args)

    with connection.execute_wrapper(count_query):
        started = time.perf_counter()
        yield
        measurements.append(Measurement(time.perf_counter() - started, count))


def request_as_admin(path: str) -> Callable[[Any, dict[str, Any]], Measurement]:
    def request(study: Any, browsers: dict[str, Any]) -> Measurement:
        from django.contrib.auth.models import User

        client, measurements = get_client(User.objects.get(username="admin"), browsers), []
        with measure_request(measurements):
            response = client.get(path.format(study.slug))
        assert response.status_code == 200, f"{path}: {response.status_code}"
        return measurements[0]

    return request


def request_start_page(study: Any, browsers: dict[str, Any]) -> Measurement:
    client, measurements = get_client(get_first_rater(study).user, browsers), []
    with measure_request(measurements):
        assert client.get("/rate/?all").status_code == 200
    return measurements[0]


def request_next_item(study: Any, browsers: dict[str, Any]) -> Measurement:
    """Open the address that every link leads to, and follow it to the item."""
    rater = get_first_rater(study)
    client, measurements = get_client(rater.user, browsers), []
    with measure_request(measurements):
        response = client.get(f"/rate/study/{rater.code}/", follow=True)
    assert b"submission_id" in response.content
    return measurements[0]


def submit_rating(study: Any, browsers: dict[str, Any]) -> Measurement:
    """Submit a rating as htmx does, then remove it, so that each round starts with the same rows."""
    from ratings.rating import next_item

    rater = get_first_rater(study)
    assignment = next_item.find_next_assignment(rater)
    assert assignment is not None
    next_item.mark_opened(assignment)
    client, measurements = get_client(rater.user, browsers), []
    form = {"verdict": "yes", "confidence": "3", "submission_id": str(uuid.uuid4()), "stage": "final", "revision": "0"}
    with measure_request(measurements):
        response = client.post(f"/rate/{assignment.code}/", form, headers={"HX-Request": "true"})
    assert response.status_code == 200 and b"submission_id" in response.content, response.status_code
    delete_rating(assignment)
    return measurements[0]


def delete_rating(place: Any) -> None:
    from ratings.models import Assignment, Rater, Rating, RatingEvent
    from ratings.studies.item_counts import update_item_counts

    Rating.objects.get(assignment=place).delete()
    RatingEvent.objects.filter(assignment=place).delete()
    Assignment.objects.filter(rater=place.rater, rating=None).update(opened_at=None, answered_at=None)
    update_item_counts(Rater.objects.filter(pk=place.rater_id))


def get_first_rater(study: Any) -> Any:
    return study.raters.select_related("user", "study").get(number=1)


REQUESTS: dict[str, Callable[[Any, dict[str, Any]], Measurement]] = {
    "next item": request_next_item,
    "rating, answered with the next": submit_rating,
    "study, open": request_as_admin("/studies/{}/"),
    "study, closed": request_as_admin("/studies/{}/"),
    "study, unblinded": request_as_admin("/studies/{}/"),
    "raters": request_as_admin("/studies/{}/raters/"),
    "items, unblinded": request_as_admin("/studies/{}/items/"),
    "list of studies": request_as_admin("/studies/"),
    "rater's start page": request_start_page,
}
