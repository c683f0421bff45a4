"""URLs of the rating app. Each module of views lists its own."""

from django.urls import URLPattern

from ratings.web import help_pages, jobs
from ratings.web.account import account, tokens
from ratings.web.rater import links, rater_home, rating
from ratings.web.results import benchmarks, comparison, paper, result_files, results_pages
from ratings.web.study import (
    builder,
    dashboard,
    export,
    inviting,
    machines,
    planner,
    public_page,
    quarantine_page,
    raters,
    start,
    study,
    study_list,
    vetting,
    vetting_samples,
)

app_name = "ratings"

# Pages of raters, and personal links to them.
rater_urls: list[URLPattern] = [*rating.urls, *links.urls, *account.urls, *rater_home.urls]

# Pages of studies, for people with a role in them.
study_urls: list[URLPattern] = [
    *start.urls, *study_list.urls,
    *builder.urls, *planner.urls, *study.urls, *dashboard.urls, *inviting.urls, *raters.urls,
    *export.urls, *vetting_samples.urls, *vetting.urls, *quarantine_page.urls, *jobs.urls,
    *result_files.urls, *results_pages.urls, *comparison.urls, *benchmarks.urls, *paper.urls, *machines.urls, *tokens.urls,
    *help_pages.urls, *public_page.urls,
]  # fmt: skip

urlpatterns = rater_urls + study_urls
