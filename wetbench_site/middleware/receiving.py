"""How much of a request is read. What is too large is refused before its body, and never kept."""

from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.core.files.uploadhandler import FileUploadHandler

LARGEST_FILE = 20 << 20
TAKE_FILES = frozenset({"ratings:import_items", "ratings:import_ratings"})  # pages with a form for one
_AROUND = 1 << 16  # the form that a file comes in


class OneBoundedFile(FileUploadHandler):
    """Looks at a form with a file before the handlers that keep it: RequestDataTooBig where it says that it is too long."""

    def handle_raw_input(
        self,
        input_data: Any,
        META: Any,  # noqa: N803  # Django names it so
        content_length: int,
        boundary: Any,
        encoding: str | None = None,
    ) -> None:
        """Refuses by what the request says of its own length, beyond which Django reads nothing; a page without a form for
        files takes what any form has. The form itself tells of a file that is a little too large."""
        if content_length > self._most() + _AROUND:
            raise RequestDataTooBig("a form with a file that is too large")

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes:
        return raw_data

    def file_complete(self, file_size: int) -> None:
        """Kept by the handlers behind this one."""

    def _most(self) -> int:
        match = self.request.resolver_match if self.request else None
        takes = match is not None and match.view_name in TAKE_FILES
        return LARGEST_FILE if takes else settings.DATA_UPLOAD_MAX_MEMORY_SIZE
