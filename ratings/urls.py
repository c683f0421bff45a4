"""Addresses of the rating room."""

from django.urls import URLPattern, path

from ratings.views import links, rating

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
study_urls: list[URLPattern] = []

urlpatterns = rater_urls + study_urls
