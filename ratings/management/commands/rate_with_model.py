"""python manage.py rate_with_model STUDY --cast NAME [--context yes|no] [--retry-failed] [--by USER] [--no-wait]

With a model: [--prompts SET] [--max-cost USD] [--max-tokens N] [--max-minutes N]
"""

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandError, CommandParser

from ratings.management.input_files import add_study_argument, exit_with_2
from ratings.models import MachineRater
from ratings.raters import machine_raters, model_raters
from ratings.studies import StudyError, lifecycle
from simulation import leases
from simulation.engine import workers
from simulation.jobs import jobs
from simulation.lab.errors import LabError
from simulation.management.command_options import ProgressLine, add_run_options, get_run_options, print_usage
from simulation.models import Job
from wetbench_site.safe_output import SafeCommand

_ADVICE = {
    "budget": "Set a larger budget (--max-cost, --max-tokens, --max-minutes). ",
    "credentials": "Set the key, or top up the account. ",
    "bad_request": "Correct the model's entry (load_models). ",
    "provider_unavailable": "Check the provider's status page. ",
}


class Command(SafeCommand):
    help = (
        "Rate the frozen items of a study with a model, or with the rule-based checker, as a labelled model rater. "
        "A second start continues with the remaining items."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_study_argument(parser)
        parser.add_argument(
            "--cast", required=True, metavar="NAME",
            help="checker (rule-based), a cast (its classifier rates), or a model",
        )  # fmt: skip
        parser.add_argument(
            "--context", choices=["yes", "no"], help="also show the context; default: if every rater sees it"
        )
        parser.add_argument("--retry-failed", action="store_true", help="retry the items that failed")
        parser.add_argument("--by", default="", metavar="USER", help="the person responsible, for the study's log")
        parser.add_argument("--no-wait", action="store_true", help="do not wait; a worker rates the items")
        add_run_options(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        context = {"yes": True, "no": False}.get(options["context"])
        with exit_with_2(StudyError, LabError):
            study, by = lifecycle.get_study(options["study"]), _get_user(options["by"])
            request = model_raters.request_ratings(
                study,
                options["cast"],
                context=context,
                retry=options["retry_failed"],
                by=by,
                **get_run_options(options),
            )
        rater = request.rater
        if request.job is None:
            self.stdout.write(f"{rater.label}, {rater.name}: no items left to rate")
            self._print_result(rater)
            return
        received = model_raters.describe_input(rater)
        self.stdout.write(f"{rater.label}, {rater.name}: {request.owed} items to rate, {received}")
        if worst := machine_raters.estimate_max_cost(rater, model_raters.items_to_rate(rater, request.job.params)):
            cost = "cost unknown" if worst.cost is None else f"${worst.cost:,.4f}"
            self.stdout.write(f"at most {worst.calls} calls, {worst.tokens:,} tokens, {cost}")
        if options["no_wait"]:
            self.stdout.write(f"Waiting for a worker: job {request.job.code}")
            return
        self._run_job(rater, request.job)

    def _run_job(self, rater: MachineRater, job: Job) -> None:
        line = ProgressLine("ratings")
        # Rows of a worker that died would otherwise wait until their lease ends.
        leases.expire_dead_leases()
        with workers.periodic_sweep():
            ended = jobs.run_job_here(job, lambda _: line.show_progress(self._describe_progress(rater)))
        line.show_progress(self._describe_progress(rater), last=True)
        self._print_result(rater)
        if ended.status != "done":
            message = ended.error or ("the job was stopped" if ended.status == "cancelled" else "the run is paused")
            advice = _ADVICE.get(ended.reason, "")
            raise CommandError(f"Not all items are rated: {message}. {advice}Run the command again to continue.")

    def _describe_progress(self, rater: MachineRater) -> str:
        progress = model_raters.count_progress(rater)
        return f"{rater.label}: {progress.rated + sum(progress.failed.values())} of {progress.items} items, {progress.rated} rated"

    def _print_result(self, rater: MachineRater) -> None:
        progress = model_raters.count_progress(rater)
        self.stdout.write(f"{progress.rated} of {progress.items} items rated")
        for reason, number in sorted(progress.failed.items()):
            advice = "" if reason in model_raters.ANSWERED else "; use --retry-failed to retry"
            self.stdout.write(f"{number} without a verdict: {reason.replace('_', ' ')}{advice}")
        if rater.run:
            print_usage(rater.run, self.stdout)


def _get_user(name: str) -> User | None:
    if not name:
        return None
    user = User.objects.filter(username=name, is_active=True).first()
    if user is None:
        raise StudyError(f"There is no user {name!r} with an active account.")
    return user
