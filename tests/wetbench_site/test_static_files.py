"""Tests of static files: collected when the server starts, compressed, cached under hashed names; plain names until then."""

import gzip
import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.staticfiles.storage import staticfiles_storage
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from whitenoise.middleware import WhiteNoiseMiddleware

from wetbench_site.middleware import static_files

CSS = Path(__file__).parents[2] / "static" / "site.css"


def get_file(url: str, settings: Any) -> Any:
    """Return the answer of a server that starts now."""
    settings.WHITENOISE_AUTOREFRESH = False

    def answer_not_found(request: HttpRequest) -> HttpResponse:
        return HttpResponse(status=404)

    server = WhiteNoiseMiddleware(answer_not_found, settings)
    return server(RequestFactory().get(url, headers={"Accept-Encoding": "gzip"}))


def test_static_files_are_compressed_and_cached_for_years_under_hashed_names(settings: Any, tmp_path: Path) -> None:
    settings.STATIC_ROOT = tmp_path / "static"
    static_files.collect_if_changed()
    url = staticfiles_storage.url("site.css")
    assert re.fullmatch(r"/static/site\.[0-9a-f]{12}\.css", url)
    answer = get_file(url, settings)
    assert answer.status_code == 200 and answer["Content-Encoding"] == "gzip"
    assert gzip.decompress(b"".join(answer.streaming_content)) == CSS.read_bytes()
    assert (
        "immutable" in answer["Cache-Control"]
        and int(re.findall(r"max-age=(\d+)", answer["Cache-Control"])[0]) >= 365 * 24 * 3600
    )


def test_static_files_are_collected_again_only_after_a_change_and_old_ones_stay(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.STATIC_ROOT, sources = tmp_path / "static", tmp_path / "sources"
    sources.mkdir()
    (sources / "one.css").write_text("a { color: red }")
    settings.STATICFILES_DIRS = [sources]
    settings.STATICFILES_FINDERS = ["django.contrib.staticfiles.finders.FileSystemFinder"]
    calls: list[str] = []
    collect = static_files.call_command
    monkeypatch.setattr(
        static_files, "call_command", lambda *args, **options: (calls.append(args[0]), collect(*args, **options))
    )
    static_files.collect_if_changed()
    static_files.collect_if_changed()
    assert calls == ["collectstatic"]
    first = staticfiles_storage.url("one.css")
    (sources / "one.css").write_text("a { color: blue; }")
    static_files.collect_if_changed()
    assert calls == ["collectstatic"] * 2 and staticfiles_storage.url("one.css") != first
    assert get_file(first, settings).status_code == 200  # a page of the earlier release that is still open


def test_static_files_have_plain_names_where_they_cannot_be_collected(
    settings: Any, tmp_path: Path, caplog: Any
) -> None:
    settings.STATIC_ROOT = tmp_path / "static"
    (
        tmp_path / "static.collected"
    ).mkdir()  # so that the record cannot be written; a folder without rights stops no root
    static_files.collect_if_changed()
    assert "cannot be collected" in caplog.text
    assert staticfiles_storage.url("site.css") == "/static/site.css"
    with pytest.warns(UserWarning, match="No directory"):
        assert get_file("/static/site.css", settings).status_code == 200
