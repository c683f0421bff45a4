"""Whose request it is: the token in its header, and nothing else. A session's cookie opens nothing here."""

import math
import time
from collections.abc import Callable, Collection
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from django.conf import settings
from django.http import HttpRequest
from ninja import Router
from ninja.errors import AuthorizationError, Throttled, ValidationError
from ninja.security import HttpBearer

from ratings.api import described, tokens
from ratings.api.cursors import Window
from ratings.models import ApiToken
from wetbench_site.middleware.write_limit import Buckets
from wetbench_site.observability.audit_log import security_event


class ApiRequest(HttpRequest):
    """A request that a token came with."""

    auth: ApiToken


class Token(HttpBearer):
    """Finds the token, counts the request and notes that it was used."""

    openapi_description = "A token made at /account/tokens/ or by `manage.py api_token create`."

    def authenticate(self, request: HttpRequest, token: str) -> ApiToken | None:
        found = tokens.live(token.strip())
        if found is None:
            security_event("api token refused", request)
            return None
        if wait := buckets.wait(found.code, settings.API_PER_MINUTE, time.monotonic()):
            security_event("api token held back", request, token=str(found.code))
            raise Throttled(math.ceil(wait))
        tokens.mark_used(found)
        return found


buckets = Buckets()
P = ParamSpec("P")
View = Callable[Concatenate[ApiRequest, P], Any]


def reads(
    router: Router, path: str, name: str, scopes: Collection[str], answer: Any, *errors: int
) -> Callable[[View[P]], Callable[..., Any]]:
    """Makes a view the address `path`, for tokens with one of these scopes; `errors` beside those that all have."""

    def decorate(view: View[P]) -> Callable[..., Any]:
        @wraps(view)
        def guarded(request: ApiRequest, *args: P.args, **kwargs: P.kwargs) -> Any:
            if not set(scopes) & set(request.auth.scopes):
                raise AuthorizationError(message=f"This token lacks the scope {' or '.join(scopes)}.")
            _refuse_unknown(request, kwargs.get("window"))
            return view(request, *args, **kwargs)

        said = (view.__doc__ or "").strip()
        router.api_operation(
            ["GET", "HEAD"], path, response=answer, url_name=name, operation_id=name, summary=said.split(".")[0],
            description=f"{said}\n\nScope: {' or '.join(f'`{one}`' for one in scopes)}.", openapi_extra=described.errors(*errors),
        )(guarded)  # fmt: skip
        return guarded

    return decorate


def _refuse_unknown(request: HttpRequest, window: Any) -> None:
    """A parameter with a typing error in its name must not be taken for none."""
    known = type(window).model_fields if isinstance(window, Window) else {}
    if strange := sorted(set(request.GET) - set(known)):
        raise ValidationError(
            [{"loc": ("query", name[:60]), "msg": "there is no such parameter here"} for name in strange]
        )
