"""A program that reads the API with a token."""

from collections.abc import Iterator
from typing import Any

from django.contrib.auth.models import User
from django.test import Client

from ratings.api import tokens
from ratings.api.tokens import LABORATORY_SCOPES, SCOPE_DESCRIPTIONS
from ratings.models import ApiToken

ROOT = "/api/v1"


class ApiProgram:
    """A client that sends its token with every request."""

    def __init__(self, text: str) -> None:
        self.client, self.headers = Client(), {"Authorization": f"Bearer {text}"}

    def send_request(self, path: str, method: str = "GET", **headers: str) -> Any:
        address = path if path.startswith(ROOT) else f"{ROOT}{path}"
        return self.client.generic(method, address, headers={**self.headers, **headers})

    def iter_pages(self, path: str) -> Iterator[dict[str, Any]]:
        """Yield every page of a list, following `next`."""
        next_path: str | None = path
        while next_path:
            response = self.send_request(next_path)
            assert response.status_code == 200, response.content
            yield response.json()
            next_path = response.json()["next"]

    def list_rows(self, path: str) -> list[dict[str, Any]]:
        return [row for page in self.iter_pages(path) for row in page["data"]]


def create_api_program(user: User, *scopes: str, **terms: Any) -> ApiProgram:
    """Return a program with a token of these scopes, by default all that this user can have."""
    allowed_scopes = [name for name in SCOPE_DESCRIPTIONS if user.is_staff or name not in LABORATORY_SCOPES]
    return ApiProgram(tokens.create_token(user, "notebook", scopes or allowed_scopes, **terms)[1])


def get_last_token() -> ApiToken:
    return ApiToken.objects.order_by("-pk")[0]
