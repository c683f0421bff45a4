"""Writers to SQLite queue within one process: each waits until the one before has ended."""

import threading
import time

import pytest
from django.db import OperationalError, connection, transaction

from wetbench_site.sqlite import base

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif("connection.vendor != 'sqlite'", reason="the queue is only for SQLite"),
]


def in_thread(work: object) -> threading.Thread:
    def run() -> None:
        try:
            work()  # type: ignore[operator]
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_second_writer_begins_as_soon_as_the_first_one_ends() -> None:
    order: list[str] = []

    def second() -> None:
        with transaction.atomic():
            order.append("second")

    with transaction.atomic():
        waiting = in_thread(second)
        time.sleep(0.05)
        order.append("first")
    waiting.join(5)

    assert order == ["first", "second"] and not base._write_queue.locked()


@pytest.mark.parametrize("how", ["rollback", "close"])
def test_write_queue_is_released_by_rollback_and_by_close(how: str) -> None:
    connection.ensure_connection()
    connection.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)
    assert base._write_queue.locked()

    connection.rollback() if how == "rollback" else connection.close()

    assert not base._write_queue.locked()
    if how == "rollback":
        connection.set_autocommit(True)


def test_writer_that_waits_too_long_gets_the_error_of_sqlite() -> None:
    errors: list[str] = []

    def impatient() -> None:
        connection.ensure_connection()
        connection.settings_dict = connection.settings_dict | {"OPTIONS": {"timeout": 0.05}}
        try:
            with transaction.atomic():
                pass
        except OperationalError as error:
            errors.append(str(error))

    with transaction.atomic():
        in_thread(impatient).join(5)

    assert [error.split(":")[0] for error in errors] == ["database is locked"]
