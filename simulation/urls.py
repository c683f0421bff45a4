"""URLs of the simulation pages, all for staff."""

from django.urls import path

from simulation.web import calls, catalogue, episode_list, episodes, human_agent, run_list, runs, twins
from simulation.web.replication import episode_list as code_episode_list
from simulation.web.replication import episodes as code_episodes
from simulation.web.replication import masks, order, tasks

app_name = "simulation"

urlpatterns = [
    path("experiments/", catalogue.list_experiments, name="experiments"),
    path("experiments/<slug:slug>/", catalogue.show_experiment, name="experiment"),
    path("actions/", catalogue.list_actions, name="actions"),
    path("episodes/", episode_list.list_episodes, name="episodes"),
    path("episodes/act/", episode_list.act_on_episodes, name="act_on_episodes"),
    path("episodes/new/", runs.start_episodes, name="new_episodes"),
    path("episodes/person/", human_agent.start_human_episode, name="new_person"),
    path("episodes/<uuid:code>/", episodes.show_episode, name="episode"),
    path("episodes/<uuid:code>/beside/", episodes.compare_episodes, name="beside"),
    path("episodes/<uuid:code>/play/", human_agent.show_bench, name="play"),
    path("episodes/<uuid:code>/stop/", episodes.stop_episode, name="stop_episode"),
    path("episodes/<uuid:code>/retry/", episodes.retry_episode, name="retry_episode"),
    path("runs/", run_list.list_runs, name="runs"),
    path("runs/act/", run_list.act_on_runs, name="act_on_runs"),
    path("runs/<uuid:code>/", runs.show_run, name="run"),
    path("runs/<uuid:code>/calls/", calls.list_run_calls, name="run_calls"),
    path("runs/<uuid:code>/stop/", runs.stop_run, name="stop_run"),
    path("runs/<uuid:code>/pause/", runs.pause_run, name="pause_run"),
    path("runs/<uuid:code>/resume/", runs.resume_run, name="resume_run"),
    path("episodes/<uuid:code>/verdicts/", episodes.request_verdicts, name="request_verdicts"),
    path("runs/<uuid:code>/verdicts/", runs.request_run_verdicts, name="request_run_verdicts"),
    path("runs/<uuid:code>/again/", runs.retry_blocked, name="try_again"),
    path("runs/<uuid:code>/continue/", runs.continue_run, name="continue_run"),
    path("calls/<uuid:code>/", calls.show_call, name="call"),
    path("calls/<uuid:code>/request/", calls.download_request, name="call_request"),
    path("calls/<uuid:code>/reply/", calls.download_reply, name="call_reply"),
    path("models/", catalogue.list_models, name="models"),
    path("twins/", twins.list_twins, name="twins"),
    path("twins/new/", twins.start_twins, name="new_twins"),
    path("twins/<uuid:code>/", twins.show_twin, name="twin"),
    path("twins/<uuid:code>/retry/", twins.retry_twin, name="retry_twin"),
    path("replication/", tasks.list_tasks, name="tasks"),
    path("replication/new/", order.start_code_run, name="new_code_run"),
    path("replication/tasks/<slug:slug>/", tasks.show_task, name="task"),
    path("replication/tasks/<slug:slug>/gold/", tasks.show_gold, name="task_gold"),
    path("replication/masks/<slug:slug>/<slug:key>/", masks.show_mask, name="mask"),
    path("replication/episodes/", code_episode_list.list_code_episodes, name="code_episodes"),
    path("replication/episodes/act/", code_episode_list.act_on_code_episodes, name="act_on_code_episodes"),
    path("replication/episodes/<uuid:code>/", code_episodes.show_code_episode, name="code_episode"),
    path("replication/episodes/<uuid:code>/steps/<int:number>/", code_episodes.show_code_step, name="code_step"),
    path("replication/episodes/<uuid:code>/diff/", code_episodes.show_code_diff, name="code_diff"),
    path("replication/episodes/<uuid:code>/file/", code_episodes.show_code_file, name="code_file"),
    path("replication/episodes/<uuid:code>/stop/", code_episodes.stop_code_episode, name="stop_code_episode"),
    path("replication/episodes/<uuid:code>/retry/", code_episodes.retry_code_episode, name="retry_code_episode"),
]
