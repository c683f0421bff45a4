"""`make demo` for a new user: killed while it creates data, started again, used, and stopped."""

import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest
from django.conf import settings
from playwright.sync_api import BrowserContext, expect

from tests.support.browser_steps import locate_saved_count, press_keys
from tests.support.services import find_free_port
from tests.support.visitor import Visitor

# Every item with the values by which ratings.studies.readable_elsewhere compares items.
_CONTENTS = """
    select study.slug, item.pair_sha256, coalesce(step.episode_id, review.episode_id) as episode
    from ratings_item item join ratings_study study on study.id = item.study_id
    join ratings_itemsource source on source.item_id = item.id
    left join simulation_transition step on step.id = source.transition_id
    left join simulation_evidencereview review on review.id = source.review_id
"""


def is_port_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Demo:
    """The process that `make demo` becomes, and everything it printed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, find_free_port()
        self.process: subprocess.Popen[str] | None = None
        self.output: list[str] = []

    def start(self) -> None:
        env = {**os.environ, "WETBENCH_VAR_DIR": str(self.folder)}
        for name in ("DATABASE_URL", "CELERY_BROKER_URL", "WETBENCH_PACE"):
            env.pop(name, None)
        command = [sys.executable, "manage.py", "demo", "--port", str(self.port)]
        self.output = []
        self.process = subprocess.Popen(
            command, cwd=settings.BASE_DIR, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        threading.Thread(target=self._collect_output, args=(self.process, self.output), daemon=True).start()

    @staticmethod
    def _collect_output(process: "subprocess.Popen[str]", output: list[str]) -> None:
        assert process.stdout
        output.extend(iter(process.stdout.readline, ""))

    def wait_for_output(self, text: str, seconds: float) -> str:
        deadline = time.monotonic() + seconds
        while text not in (printed := "".join(self.output)):
            assert self.process and self.process.poll() is None, f"the demo ended: {printed}"
            assert time.monotonic() < deadline, f"{text!r} was not printed within {seconds:.0f} s: {printed}"
            time.sleep(0.05)
        return "".join(self.output)

    def stop_demo(self, with_signal: signal.Signals) -> int:
        assert self.process
        self.process.send_signal(with_signal)
        return self.process.wait(40)

    def wait_until_port_is_free(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while is_port_open(self.port):
            assert time.monotonic() < deadline, "a process that was left behind still answers"
            time.sleep(0.05)

    def count_rows(self, query: str) -> int:
        path = self.folder / "wetbench.sqlite3"
        if not path.exists():
            return 0
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=20) as database:
            try:
                return database.execute(query).fetchone()[0]
            except sqlite3.OperationalError:
                return 0  # not migrated yet


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    process_under_test = Demo(tmp_path)
    yield process_under_test
    if process_under_test.process and process_under_test.process.poll() is None:
        process_under_test.process.kill()
        process_under_test.process.wait()


def check_transfer_sizes(demo: Demo, browser: BrowserContext) -> None:
    """Check what a browser with an empty cache transfers for the first item and for the next ones, headers included."""
    # Practice has tests of its own.
    with sqlite3.connect(demo.folder / "wetbench.sqlite3", timeout=20) as database:
        database.execute(
            "update ratings_rater set practised_at = consented_at, started_at = consented_at, guide_seen = 1 where user_id is not null"
        )
        code, session = database.execute(
            "select rater.code, session.session_key from ratings_rater rater"
            " join ratings_browsersession session on session.user_id = rater.user_id"
        ).fetchone()
    site = f"http://127.0.0.1:{demo.port}"
    browser.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": site}])
    page = browser.new_page()
    transferred: list[float] = []
    protocol = browser.new_cdp_session(page)
    protocol.send("Network.enable")
    protocol.on("Network.loadingFinished", lambda event: transferred.append(event["encodedDataLength"]))
    page.goto(f"{site}/rate/study/{UUID(code)}/", wait_until="networkidle")
    assert len(transferred) > 5 and sum(transferred) <= 100_000, transferred
    for number in (1, 2, 3):
        transferred.clear()
        press_keys(page, "p", "4", "Enter")
        expect(locate_saved_count(page)).to_contain_text(f"{number} saved")
        page.wait_for_load_state("networkidle")
        assert 1_000 < sum(transferred) <= 6_000, transferred


def test_demo_shows_its_progress_continues_after_it_was_killed_and_its_three_links_work(
    demo: Demo, new_context: Callable[..., BrowserContext]
) -> None:
    demo.start()
    sign_in = re.findall(r"http://\S+/sign-in/\S+", demo.wait_for_output("/sign-in/", 120))[0]
    studies = Visitor(f"http://127.0.0.1:{demo.port}").get(sign_in)
    assert "Example data" in studies.text and "Your first study in three steps" in studies.text
    deadline = time.monotonic() + 120
    while demo.count_rows("select count(*) from simulation_transition") < 20:
        assert time.monotonic() < deadline, "".join(demo.output)
        time.sleep(0.02)
    demo.stop_demo(signal.SIGKILL)
    assert demo.count_rows("select count(*) from simulation_episode where ended_at is null") > 0
    demo.wait_until_port_is_free(40)  # its processes finish the steps under way

    demo.start()
    output = demo.wait_for_output("A rater's personal link", 240)
    assert demo.count_rows("select count(*) from simulation_episode where ended_at is null") == 0
    doubled = (
        "select count(*) from (select 1 from simulation_transition group by episode_id, number having count(*) > 1)"
    )
    gaps = (
        "select count(*) from (select 1 from simulation_transition group by episode_id "
        "having max(number) <> count(*) or min(number) <> 1)"
    )
    assert (demo.count_rows(doubled), demo.count_rows(gaps)) == (0, 0)
    # Readers of the finished studies see nothing of the study to try: neither its steps nor their episodes.
    assert demo.count_rows(f"select count(*) from ({_CONTENTS}) where slug = 'try-it'") == 10
    items_to_try = f"select * from ({_CONTENTS}) where slug = 'try-it'"
    other_items = f"select * from ({_CONTENTS}) where slug <> 'try-it'"
    shared_items = f"select count(*) from ({items_to_try}) h join ({other_items}) t on h.pair_sha256 = t.pair_sha256 or h.episode = t.episode"
    assert demo.count_rows(shared_items) == 0

    sign_in, dashboard, rate = re.findall(r"http://\S+/\S+", output.split("Admin and analyst")[1])[:3]
    analyst = Visitor(f"http://127.0.0.1:{demo.port}")
    assert analyst.get(dashboard).url.split("?")[0].endswith("/login/")
    assert analyst.get(sign_in).status == 200
    finished = analyst.get(dashboard)
    assert finished.status == 200 and "simulated" in finished.text
    rater = Visitor(f"http://127.0.0.1:{demo.port}")
    consent = rater.get(rate)
    assert "Take part" in consent.text
    about = {"degree": "Doctorate (PhD, DPhil, MD)", "field": "cell biology", "years": "9"}
    assert rater.submit_form(consent, consent="on", **about).url.endswith("/guide/")
    check_transfer_sizes(demo, new_context())

    assert demo.stop_demo(signal.SIGINT) == 0
    assert not is_port_open(demo.port), "something still answers after Ctrl-C"

    ratings = demo.count_rows("select count(*) from ratings_rating")
    start = time.monotonic()
    demo.start()
    demo.wait_for_output("A rater's personal link", 30)
    assert demo.count_rows("select count(*) from ratings_rating") == ratings
    assert time.monotonic() - start < 30  # a second start creates nothing again; "a few seconds" on an idle machine
    assert demo.stop_demo(signal.SIGINT) == 0


def test_demo_names_a_port_in_use_and_how_to_choose_another(demo: Demo) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", demo.port))
        taken.listen()
        demo.start()
        assert demo.process and demo.process.wait(30) == 1
        time.sleep(0.2)
        assert f"Port {demo.port} is in use" in "".join(demo.output)
        assert f"PORT={demo.port + 1}" in "".join(demo.output)
