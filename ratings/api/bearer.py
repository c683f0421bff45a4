"""Authenticate requests by the bearer token in their header. Session cookies are ignored."""

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
    """A request with a valid token."""

    auth: ApiToken


class Token(HttpBearer):
    """Find the token, count the request against its rate limit and record that it was used."""

    openapi_description = "A token created at /account/tokens/ or with `manage.py api_token create`."

    def authenticate(self, request: HttpRequest, token: str) -> ApiToken | None:
        api_token = tokens.live(token.strip())
        if api_token is None:
            security_event("api token refused", request)
            return None
        # in each web process by itself: a shared counter would cost a write per request
        if wait := buckets.wait(api_token.code, settings.API_PER_MINUTE, time.monotonic()):
            security_event("api token held back", request, token=str(api_token.code))
            raise Throttled(math.ceil(wait))
        tokens.mark_used(api_token)
        return api_token


buckets = Buckets()
P = ParamSpec("P")
View = Callable[Concatenate[ApiRequest, P], Any]


def reads(
    router: Router, path: str, name: str, scopes: Collection[str], answer: Any, *errors: int
) -> Callable[[View[P]], Callable[..., Any]]:
    """Register a view at `path` for tokens with one of these scopes. `errors` are in addition to those of every operation."""

    def decorate(view: View[P]) -> Callable[..., Any]:
        @wraps(view)
        def guarded(request: ApiRequest, *args: P.args, **kwargs: P.kwargs) -> Any:
            if not set(scopes) & set(request.auth.scopes):
                raise AuthorizationError(message=f"This token lacks the scope {' or '.join(scopes)}.")
            _refuse_unknown(request, kwargs.get("window"))
            return view(request, *args, **kwargs)

        description = (view.__doc__ or "").strip()
        router.api_operation(
            # HEAD too, as for every page; the description of the API leaves it out
            ["GET", "HEAD"], path, response=answer, url_name=name, operation_id=name, summary=description.split(".")[0],
            description=f"{description}\n\nScope: {' or '.join(f'`{scope}`' for scope in scopes)}.", openapi_extra=described.errors(*errors),
        )(guarded)  # fmt: skip
        return guarded

    return decorate


def _refuse_unknown(request: HttpRequest, window: Any) -> None:
    """A parameter with a typing error in its name must not be taken for none."""
    known = type(window).model_fields if isinstance(window, Window) else {}
    # A misspelt filter that is ignored would return more rows than the caller believes.
    if unknown := sorted(set(request.GET) - set(known)):
        raise ValidationError([{"loc": ("query", name[:60]), "msg": "unknown parameter"} for name in unknown])
