"""python manage.py demo"""

import threading
from typing import Any

from django.core.management.base import CommandError, CommandParser

from ratings import demonstration
from ratings.raters import email_messages
from simulation.jobs import jobs
from simulation.management import local_address, supervisor
from simulation.management.command_options import ProgressLine, integer_between
from simulation.models import Job
from wetbench_site.database import release_connection
from wetbench_site.safe_output import SafeCommand

HOST = "127.0.0.1"


class Command(SafeCommand):
    help = "Serve a finished example, together with a worker that creates it. A second start keeps the data."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=integer_between(1, 65535), default=8000)
        parser.add_argument("--make-only", action="store_true", help="create the example without serving it")

    def handle(self, *args: Any, **options: Any) -> None:
        supervisor.enable_line_buffering()
        port, serve = options["port"], not options["make_only"]
        if serve:
            supervisor.check_port_is_free(HOST, port)
        supervisor.migrate_if_needed(self.stdout.write)
        job = demonstration.request_demo(demonstration.get_or_create_admin())
        if serve:
            self._serve_demo(port, job)
        else:
            self._create_demo(job)

    def _create_demo(self, job: Job) -> None:
        """Create everything in this process, the figures included."""
        self._run_here(job)
        for analysis in demonstration.request_analyses():
            self._run_here(analysis)
        self.stdout.write("The example is ready")

    def _run_here(self, job: Job) -> None:
        progress = ProgressLine("")
        ended = jobs.run_job_here(job, lambda row: progress.show_progress(row.message))
        if ended.status != "done":
            raise CommandError(f"The example is incomplete: {ended.error or ended.status}")

    def _serve_demo(self, port: int, job: Job) -> None:
        site = email_messages.make_url_builder(site=local_address.store_address(HOST, port))("")
        admin_link = f"{site}{demonstration.create_admin_link()}"
        progress, is_pending = ProgressLine(""), job.status != "done"

        def print_welcome(stop: threading.Event) -> None:
            supervisor.wait_for_port(HOST, port, stop)
            if stop.is_set():
                return
            self.stdout.write(f"\nWetBench is running at {site}\n")
            if is_pending:
                self.stdout.write(f"  Sign in to watch how the example is created: {admin_link}\n")
            else:
                self.stdout.write(self._format_links(site, admin_link))

        def print_progress() -> None:
            nonlocal is_pending
            if not is_pending:
                return
            job.refresh_from_db(fields=["status", "message", "error"])
            is_pending = job.status in Job.RUNNABLE
            if is_pending:
                progress.show_progress(job.message)
            elif job.status == "done":
                self.stdout.write(f"The example is ready.\n{self._format_links(site, admin_link)}")
            else:
                self.stderr.write(
                    f"The example is incomplete: {job.error or job.status}. The page offers to try again."
                )
            release_connection()

        commands = {"web server": supervisor.build_web_server_command(HOST, port), **supervisor.build_worker_commands()}
        supervisor.supervise_processes(commands, self.stdout.write, print_welcome, print_progress)

    def _format_links(self, site: str, admin_link: str) -> str:
        links = demonstration.create_demo_links()
        private = f"{site}{links.rater}  (in a private window: it signs a rater in)"
        return (
            f"\n  Admin and analyst, sign in:      {admin_link}\n"
            f"  A finished study's dashboard:    {site}{links.dashboard}  (after signing in)\n"
            f"  A rater's personal link:         {private if links.rater else 'the study is closed'}\n\n"
            "Ctrl-C stops everything. `make demo` again keeps the data and creates new links."
        )
