"""Addresses of the laboratory's pages, all for staff."""

from django.urls import path

from simulation.views import catalogue, episodes, runs, twins

app_name = "simulation"

urlpatterns = [
    path("experiments/", catalogue.experiments, name="experiments"),
    path("experiments/<slug:slug>/", catalogue.experiment, name="experiment"),
    path("actions/", catalogue.actions, name="actions"),
    path("episodes/", episodes.episodes, name="episodes"),
    path("episodes/new/", runs.new_episodes, name="new_episodes"),
    path("episodes/<uuid:code>/", episodes.episode, name="episode"),
    path("episodes/<uuid:code>/stop/", episodes.stop_episode, name="stop_episode"),
    path("episodes/<uuid:code>/retry/", episodes.retry_episode, name="retry_episode"),
    path("runs/<uuid:code>/", runs.run, name="run"),
    path("runs/<uuid:code>/stop/", runs.stop_run, name="stop_run"),
    path("twins/", twins.twins, name="twins"),
    path("twins/<uuid:code>/retry/", twins.retry_twin, name="retry_twin"),
]
