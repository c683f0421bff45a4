"""URLs of the simulation pages, all for staff."""

from django.urls import path

from simulation.web import beside, budgets, calls, catalogue, controls, episodes, models, person, runs, twins

app_name = "simulation"

urlpatterns = [
    path("experiments/", catalogue.experiments, name="experiments"),
    path("experiments/<slug:slug>/", catalogue.experiment, name="experiment"),
    path("actions/", catalogue.actions, name="actions"),
    path("episodes/", episodes.episodes, name="episodes"),
    path("episodes/new/", runs.new_episodes, name="new_episodes"),
    path("episodes/person/", person.new_person, name="new_person"),
    path("episodes/<uuid:code>/", episodes.episode, name="episode"),
    path("episodes/<uuid:code>/beside/", beside.beside, name="beside"),
    path("episodes/<uuid:code>/play/", person.play, name="play"),
    path("episodes/<uuid:code>/stop/", episodes.stop_episode, name="stop_episode"),
    path("episodes/<uuid:code>/retry/", episodes.retry_episode, name="retry_episode"),
    path("runs/<uuid:code>/", runs.run, name="run"),
    path("runs/<uuid:code>/calls/", calls.run_calls, name="run_calls"),
    path("runs/<uuid:code>/stop/", controls.stop_run, name="stop_run"),
    path("runs/<uuid:code>/pause/", controls.pause_run, name="pause_run"),
    path("runs/<uuid:code>/resume/", controls.resume_run, name="resume_run"),
    path("episodes/<uuid:code>/verdicts/", episodes.request_verdicts, name="request_verdicts"),
    path("runs/<uuid:code>/verdicts/", controls.request_run_verdicts, name="request_run_verdicts"),
    path("runs/<uuid:code>/again/", controls.try_again, name="try_again"),
    path("runs/<uuid:code>/continue/", budgets.continue_run, name="continue_run"),
    path("calls/<uuid:code>/", calls.call, name="call"),
    path("calls/<uuid:code>/request/", calls.call_request, name="call_request"),
    path("calls/<uuid:code>/reply/", calls.call_reply, name="call_reply"),
    path("models/", models.models, name="models"),
    path("twins/", twins.twins, name="twins"),
    path("twins/<uuid:code>/", twins.twin, name="twin"),
    path("twins/<uuid:code>/retry/", twins.retry_twin, name="retry_twin"),
]
