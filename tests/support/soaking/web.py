"""gunicorn as `make serve` starts it, restarted by a thread whenever it has died."""

import os
import signal
import threading
import time
from pathlib import Path

from tests.support.services import free_port
from tests.support.visitor import Visitor
from tests.support.warm_processes import Forked, Warm


class Web:
    """A web server on its own port. `restarts` counts how often it had to be started again."""

    def __init__(self, warm: Warm, database: str, folder: Path, served: str = "wetbench_site.wsgi") -> None:
        self.warm, self.database, self.folder, self.port = warm, database, folder, free_port()
        self.served = served
        self.restarts = 0
        self._stopped = threading.Event()
        self._master = self._start()
        self._keeper = threading.Thread(target=self._keep, daemon=True)
        self._keeper.start()

    @property
    def site(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def kill_worker(self, which: int) -> bool:
        """Send SIGKILL to one of its processes; gunicorn replaces it."""
        if pids := self.workers():
            return _signal(pids[which % len(pids)], signal.SIGKILL)
        return False

    def kill(self) -> bool:
        """Send SIGKILL to the master: nothing answers until it has been started again."""
        self._master.signal(signal.SIGKILL)
        return True

    def roll(self) -> bool:
        """Restart the processes one by one: new ones start first, then the old ones finish their requests."""
        self._master.signal(signal.SIGHUP)
        return True

    def workers(self) -> list[int]:
        try:
            return [
                int(pid)
                for pid in Path(f"/proc/{self._master.pid}/task/{self._master.pid}/children").read_text().split()
            ]
        except OSError:
            return []

    def until_answers(self, seconds: float = 60) -> None:
        visitor, deadline = Visitor(self.site), time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                if visitor.get("/login/", timeout=5).status == 200:
                    return
            except OSError:
                time.sleep(0.1)
        raise AssertionError(f"the web server did not start within {seconds} s\n{self._master.said()}")

    def stop(self) -> None:
        self._stopped.set()
        self._keeper.join()
        self._master.signal(signal.SIGTERM)
        self._master.wait(40)

    def _keep(self) -> None:
        while not self._stopped.wait(0.1):
            if self._master.poll() is not None:
                self._master = self._start()
                self.restarts += 1

    def _start(self) -> Forked:
        options = ("--config", "python:wetbench_site.gunicorn_conf", "--bind", f"127.0.0.1:{self.port}")
        return self.warm.start(self.database, self.folder / "web.log", "gunicorn", self.served, *options)


def _signal(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
