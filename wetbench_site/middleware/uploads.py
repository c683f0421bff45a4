"""Limit the size of uploads. A request that is too large is rejected before its body is read or stored."""

from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.core.files.uploadhandler import FileUploadHandler

# The largest file that each view with a file field accepts. The limits on the lines of a file of items would allow 2.5 GB, which would fill
# the disk of a small machine while it is received; the command import_items accepts it.
MAX_FILE_BYTES = {"ratings:import_items": 256 << 20, "ratings:import_ratings": 20 << 20, "ratings:invite_list": 1 << 20}
_FORM_OVERHEAD = 1 << 16  # bytes of the other fields and of the multipart boundaries


class UploadLimit(FileUploadHandler):
    """Reject a form with files by its declared length, before the handlers that store files see it."""

    def handle_raw_input(
        self,
        input_data: Any,
        META: Any,  # noqa: N803  # Django names it so
        content_length: int,
        boundary: Any,
        encoding: str | None = None,
    ) -> None:
        """Raise RequestDataTooBig if the declared length exceeds the limit of this view.

        Django never reads more than that length. The form itself reports a file that is slightly too large.
        """
        if content_length > self._get_limit() + _FORM_OVERHEAD:
            raise RequestDataTooBig("a form with a file that is too large")

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes:
        return raw_data

    def file_complete(self, file_size: int) -> None:
        """Return None: the handlers behind this one store the file."""

    def _get_limit(self) -> int:
        match = self.request.resolver_match if self.request else None
        # A view without a file field gets the limit of ordinary forms.
        return MAX_FILE_BYTES.get(match.view_name if match else "", settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
