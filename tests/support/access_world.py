"""One object of every kind and one person of every role, to check the access table."""

from dataclasses import dataclass, field
from functools import cache
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.http.cookie import SimpleCookie
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from ratings.accounts import signing_in
from ratings.models import Analysis, Benchmark, Membership, Rater, StoredFigure, Study
from ratings.raters import invitations
from ratings.results.benchmarks import DOCUMENT_VERSION, document, store
from ratings.studies import lifecycle, public_page
from simulation.models import Transition, Twin, VettingSample
from tests.support import call_factories, code_episodes, job_factories, run_factory, study_factory
from tests.support.laboratory_rows import store_laboratory

PEOPLE = ("stranger", "nobody", "rater", "other rater", "analyst", "admin", "other admin", "superuser")


@cache
def list_urls() -> dict[str, URLPattern]:
    """Return every URL pattern of the site by its name. Django's admin site has one row of the table for all of its pages."""
    return _collect_urls(get_resolver(), "")


def _collect_urls(resolver: URLResolver, space: str) -> dict[str, URLPattern]:
    urls: dict[str, URLPattern] = {}
    for entry in resolver.url_patterns:
        if isinstance(entry, URLResolver):
            inner = f"{entry.namespace}:" if entry.namespace else space
            urls |= {} if entry.app_name == "admin" else _collect_urls(entry, inner)
        else:
            urls[f"{space}{entry.name}"] = entry
    return urls


@dataclass
class World:
    """A study `study` with an admin, an analyst and the raters R01 and R02; `other` has another admin and another rater."""

    study: Study
    other: Study
    draft: Study
    rater: Rater
    cookies: dict[str, "SimpleCookie"] = field(default_factory=dict)
    url_values: dict[str, Any] = field(default_factory=dict)

    def build_path(self, name: str) -> str:
        """Return the address of this name for `study`, or for its draft if only drafts have the page."""
        converters = list_urls()[name].pattern.converters
        return reverse(name, kwargs={key: self._get_url_value(name, key) for key in converters})

    def send_request(
        self, person: str, method: str, path: str, *, data: str = "", content_type: str = "", **headers: str
    ) -> Any:
        client = Client(raise_request_exception=False)
        if person in self.cookies:
            client.cookies = SimpleCookie(self.cookies[person].output(header="", sep=";"))
        return client.generic(method, path, data, content_type or "application/octet-stream", headers=headers)

    def _get_url_value(self, name: str, key: str) -> Any:
        return self.url_values.get(f"{name} {key}") or self.url_values[key]


def build_world() -> World:
    store_laboratory()
    run_factory.create_pool()
    admin, other_admin = (User.objects.create_user(name, is_staff=True) for name in ("boss", "other boss"))
    study = study_factory.create_open_study(name="Walked study", slug="walked")
    other = study_factory.create_open_study(name="Other study", slug="other")
    draft = lifecycle.create_study(
        lifecycle.parse_protocol(study_factory.build_protocol(name="Draft", slug="draft")), admin
    )
    Study.objects.filter(pk=study.pk).update(created_by=admin)
    Study.objects.filter(pk=other.pk).update(created_by=other_admin)
    study.refresh_from_db()
    analyst = User.objects.create_user("ann")
    member = Membership.objects.create(study=study, user=analyst, role="analyst")
    rater, other_rater = study_factory.fill_rater_place(study, "R01"), study_factory.fill_rater_place(other, "R01")
    world = World(study, other, draft, rater)
    people = {
        "nobody": User.objects.create_user("nobody"),
        "rater": rater.user,
        "other rater": other_rater.user,
        "analyst": analyst,
        "admin": admin,
        "other admin": other_admin,
        "superuser": User.objects.create_superuser("root"),
    }
    for person, user in people.items():
        client = Client()
        client.force_login(user)
        world.cookies[person] = client.cookies
    world.url_values = _build_url_values(world, member, admin)
    return world


def _build_url_values(world: World, member: Membership, admin: User) -> dict[str, Any]:
    """Return the values by the name of a URL parameter, or by the name of an address and its parameter."""
    study, rater = world.study, world.rater
    assignment = rater.assignments.order_by("position").first()
    transition = Transition.objects.first()
    call = call_factories.create_answered_call(transition.episode)
    job = job_factories.create_job(f"study/{study.slug}", "done")
    code_episode = code_episodes.create_graded_episode()
    mask = code_episode.mask
    benchmark = store.freeze_benchmark("Walked benchmark", [transition.episode.run], admin)
    _store_result(benchmark)
    codes: dict[str, UUID] = {
        "ratings:rate": assignment.code,
        "ratings:draft": assignment.code,
        "ratings:review_item": assignment.code,
        "ratings:item": assignment.item.code,
        **{f"ratings:{n}": Twin.objects.first().code for n in ("vet", "reopen_twin")},
        "ratings:vetting_sample": VettingSample.objects.create(share=20, seed=1, waiting=0).code,
        **{f"ratings:benchmark{n}": benchmark.code for n in ("", "_json", "_csv", "_figure")},
        **{
            f"simulation:{n}": transition.episode.code
            for n in ("episode", "beside", "play", "stop_episode", "retry_episode", "request_verdicts")
        },
        **{f"simulation:{n}": Twin.objects.first().code for n in ("twin", "retry_twin")},
        **{f"simulation:{n}": call.code for n in ("call", "call_request", "call_reply")},
        **{f"simulation:{n}code_episode": code_episode.code for n in ("", "stop_", "retry_")},
        **{f"simulation:code_{n}": code_episode.code for n in ("step", "diff", "file")},
        "api:code_episode": code_episode.code,
    }
    return {
        "slug": study.slug,
        "other": world.draft.slug,
        "simulation:experiment slug": "zebrafish-genotyping",
        "ratings:build slug": world.draft.slug,
        "ratings:planner slug": world.draft.slug,
        "ratings:delete_study slug": world.draft.slug,
        "ratings:open_study slug": world.draft.slug,
        "step": "question",
        "section": "rates",
        "label": "R02",
        "name": "rates",
        "ratings:help_document name": "studies",
        "ratings:help_picture name": "rate.png",
        "ratings:benchmark_csv name": "pass_at_k",
        "ratings:benchmark_figure name": "pass_at_k",
        "ending": "svg",
        "number": member.pk,
        **{f"simulation:{n} slug": mask.task.slug for n in ("task", "task_gold", "mask")},
        "simulation:mask key": mask.key,
        "simulation:code_step number": 1,
        "job": job.code,
        "file": job_factories.create_job_file(job).pk,
        "rater": rater.code,
        "code": transition.episode.run.code,
        **{f"{name} code": code for name, code in codes.items()},
        "ratings:about token": _turn_public_page_on(study),
        "ratings:rater_link token": invitations.create_invitation(study.raters.get(label="R02")),
        "ratings:admin_link token": signing_in.create_link(admin, "admin"),
    }


def _turn_public_page_on(study: Study) -> str:
    texts = {"about": "Steps of a protocol.", "who": "Biologists.", "contact": "ada@example.org"}
    public_page.save_texts(study, texts)
    public_page.set_on(study, is_on=True)
    return study.public_page.token


def _store_result(benchmark: Benchmark) -> None:
    """Store the result of the benchmark as a worker would; the figure is a placeholder."""
    result = document.build_document(benchmark, document.load_results(benchmark), resamples=0)
    values = {
        "state_digest": benchmark.sha256,
        "data_sha256": benchmark.sha256,
        "sha256": benchmark.sha256,
        "version": DOCUMENT_VERSION,
    }
    counts = {"seed": 0, "resamples": 0, "full": True, "n_ratings": result["data"]["attempts"], "seconds": 0}
    analysis = Analysis.objects.create(
        benchmark=benchmark, key=store.build_key(benchmark), document=result, **values, **counts
    )
    StoredFigure.objects.create(analysis=analysis, name="pass_at_k", profile="wide", svg="<svg></svg>", summary="")
