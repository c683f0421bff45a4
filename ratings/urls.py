"""URLs of the rating app. Each module of views lists its own."""

from django.urls import URLPattern

from ratings.web import jobs
from ratings.web.account import account, tokens
from ratings.web.rater import desk, links, rating
from ratings.web.results import benchmarks, comparing, figures, paper, results
from ratings.web.study import auditing, building, dashboard, export, importing, machines, people, study, vetting

app_name = "ratings"

# Pages of raters, and personal links to them.
rater_urls: list[URLPattern] = [*links.urls, *account.urls, *desk.urls, *rating.urls]

# Pages of studies, for people with a role in them.
study_urls: list[URLPattern] = [
    *building.urls, *study.urls, *dashboard.urls, *people.urls, *importing.urls, *export.urls, *vetting.urls,
    *auditing.urls, *jobs.urls, *results.urls, *comparing.urls, *figures.urls, *benchmarks.urls, *paper.urls, *machines.urls, *tokens.urls,
]  # fmt: skip

urlpatterns = rater_urls + study_urls
