"""python manage.py rate_with_model STUDY --cast NAME [--context yes|no] [--retry-failed] [--by USER] [--no-wait]

With a model: [--prompts SET] [--max-cost USD] [--max-tokens N] [--max-minutes N]
"""

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser

from ratings.models import MachineRater
from ratings.raters.machines import machine_work, machines
from ratings.studies import StudyError, lifecycle
from simulation.engine import workers
from simulation.jobs import jobs
from simulation.lab.errors import LabError
from simulation.leases import leases
from simulation.management.ordering import add_terms, tell_spending, terms
from simulation.management.progress import ProgressLine
from simulation.models import Job

_WHAT_TO_DO = {
    "budget": "Name a larger budget (--max-cost, --max-tokens, --max-minutes). ",
    "credentials": "Set the key, or top up the account. ",
    "bad_request": "Correct the model's entry (load_models). ",
    "provider_unavailable": "Look at the provider's status page. ",
}


class Command(BaseCommand):
    help = (
        "Have a model, or the rule-based checker, rate the frozen items of a study as a labelled machine rater. "
        "Asked again, it goes on with what is left."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("study", metavar="STUDY", help="slug or code")
        parser.add_argument(
            "--cast", required=True, metavar="NAME", help="checker (rules), a cast (its classifier rates), or a model"
        )
        parser.add_argument(
            "--context", choices=["yes", "no"], help="beside the payload; without this: if every rater sees it"
        )
        parser.add_argument("--retry-failed", action="store_true", help="ask again for the items that failed")
        parser.add_argument("--by", default="", metavar="USER", help="who answers for it, in the study's log")
        parser.add_argument("--no-wait", action="store_true", help="leave it to a worker")
        add_terms(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            made = machines.order(
                lifecycle.find(options["study"]),
                options["cast"],
                context={"yes": True, "no": False}.get(options["context"]),
                retry=options["retry_failed"],
                by=_user(options["by"]),
                **terms(options),
            )
        except (StudyError, LabError) as error:
            raise CommandError(str(error), returncode=2) from error
        rater = made.rater
        if made.job is None:
            self.stdout.write(f"{rater.label}, {rater.name}: nothing is left to rate")
            self._tell(rater)
            return
        self.stdout.write(f"{rater.label}, {rater.name}: {made.owed} items to rate, {machines.shown(rater)}")
        if worst := machine_work.worst_case(rater, machines.owed(rater, made.job.params)):
            cost = "cost not known" if worst.cost is None else f"${worst.cost:,.4f}"
            self.stdout.write(f"at most {worst.calls} calls, {worst.tokens:,} tokens, {cost}")
        if options["no_wait"]:
            self.stdout.write(f"Left to a worker: job {made.job.code}")
            return
        self._wait(rater, made.job)

    def _wait(self, rater: MachineRater, job: Job) -> None:
        line = ProgressLine("ratings")
        leases.expire_dead()
        with workers.sweeping():
            ended = jobs.play_here(job, lambda _: line.say(self._progress(rater)))
        line.say(self._progress(rater), last=True)
        self._tell(rater)
        if ended.status != "done":
            said = ended.error or ("it was stopped" if ended.status == "cancelled" else "its run is paused")
            told = _WHAT_TO_DO.get(ended.reason, "")
            raise CommandError(f"Not all items are rated: {said}. {told}Order it again: it goes on where it stands.")

    def _progress(self, rater: MachineRater) -> str:
        now = machines.standing(rater)
        return f"{rater.label}: {now.rated + sum(now.failed.values())} of {now.items} items, {now.rated} rated"

    def _tell(self, rater: MachineRater) -> None:
        now = machines.standing(rater)
        self.stdout.write(f"{now.rated} of {now.items} items rated")
        for reason, number in sorted(now.failed.items()):
            again = "" if reason in machines.SETTLED else "; --retry-failed asks again"
            self.stdout.write(f"{number} without a verdict: {reason.replace('_', ' ')}{again}")
        if rater.run:
            tell_spending(rater.run, self.stdout)


def _user(name: str) -> User | None:
    if not name:
        return None
    user = User.objects.filter(username=name, is_active=True).first()
    if user is None:
        raise StudyError(f"There is no user {name!r} who could answer for it.")
    return user
