"""Addresses of the rating room."""

from django.urls import URLPattern, path

from ratings.views import dashboard, export, links, rating, study

app_name = "ratings"

rater_urls: list[URLPattern] = [
    path("r/<str:token>/", links.rater_link, name="rater_link"),
    path("sign-in/<str:token>/", links.admin_link, name="admin_link"),
    path("rate/", rating.next_item, name="next"),
    path("rate/guide/", rating.guide, name="guide"),
    path("rate/done/", rating.done, name="done"),
    path("rate/<uuid:code>/", rating.rate, name="rate"),
]

# The studies' pages, for staff.
study_urls: list[URLPattern] = [
    path("studies/", study.study_list, name="studies"),
    path("studies/new/", study.new_study, name="new_study"),
    path("studies/<slug:slug>/", dashboard.study, name="study"),
    path("studies/<slug:slug>/open/", study.open_study, name="open_study"),
    path("studies/<slug:slug>/close/", study.close_study, name="close_study"),
    path("studies/<slug:slug>/reopen/", study.reopen_study, name="reopen_study"),
    path("studies/<slug:slug>/unblind/", study.unblind_study, name="unblind_study"),
    path("studies/<slug:slug>/raters/<slug:label>/link/", study.make_link, name="make_link"),
    path("studies/<slug:slug>/ratings.csv", export.ratings_csv, name="ratings_csv"),
    path("studies/<slug:slug>/protocol.json", export.protocol_json, name="protocol_json"),
]

urlpatterns = rater_urls + study_urls
