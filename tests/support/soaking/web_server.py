"""gunicorn as `make serve` starts it, restarted by a thread whenever it has died."""

import os
import signal
import threading
import time
from pathlib import Path

from tests.support.services import find_free_port
from tests.support.visitor import Visitor
from tests.support.warm_processes import ForkedProcess, PreloadedProcess


class WebServer:
    """A web server on its own port. `restarts` counts how often it had to be started again."""

    def __init__(self, warm: PreloadedProcess, database: str, folder: Path, served: str = "wetbench_site.wsgi") -> None:
        self.warm, self.database, self.folder, self.port = warm, database, folder, find_free_port()
        self.served = served
        self.restarts = 0
        self._stopped = threading.Event()
        self._master = self._start_gunicorn()
        self._keeper = threading.Thread(target=self._restart_when_dead, daemon=True)
        self._keeper.start()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def kill_worker(self, index: int) -> bool:
        """Send SIGKILL to one of its processes; gunicorn replaces it."""
        if pids := self.list_worker_pids():
            return _send_signal(pids[index % len(pids)], signal.SIGKILL)
        return False

    def kill_master(self) -> bool:
        """Send SIGKILL to the master: nothing answers until it has been started again."""
        self._master.send_signal(signal.SIGKILL)
        return True

    def restart_rolling(self) -> bool:
        """Restart the processes one by one: new ones start first, then the old ones finish their requests."""
        self._master.send_signal(signal.SIGHUP)
        return True

    def list_worker_pids(self) -> list[int]:
        try:
            return [
                int(pid)
                for pid in Path(f"/proc/{self._master.pid}/task/{self._master.pid}/children").read_text().split()
            ]
        except OSError:
            return []

    def wait_until_ready(self, seconds: float = 60) -> None:
        visitor, deadline = Visitor(self.base_url), time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                if visitor.get("/login/", timeout=5).status == 200:
                    return
            except OSError:
                time.sleep(0.1)
        raise AssertionError(f"the web server did not start within {seconds} s\n{self._master.read_log()}")

    def stop_server(self) -> None:
        self._stopped.set()
        self._keeper.join()
        self._master.send_signal(signal.SIGTERM)
        self._master.wait_for_end(40)

    def _restart_when_dead(self) -> None:
        while not self._stopped.wait(0.1):
            if self._master.get_exit_status() is not None:
                self._master = self._start_gunicorn()
                self.restarts += 1

    def _start_gunicorn(self) -> ForkedProcess:
        options = ("--config", "python:wetbench_site.gunicorn_conf", "--bind", f"127.0.0.1:{self.port}")
        return self.warm.fork_command(self.database, self.folder / "web.log", "gunicorn", self.served, *options)


def _send_signal(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
