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

from ratings.api import openapi_schema, tokens
from ratings.api.cursors import PageQuery
from ratings.models import ApiToken
from wetbench_site.middleware.write_limit import TokenBuckets
from wetbench_site.observability.audit_log import log_security_event


class ApiRequest(HttpRequest):
    """A request with a valid token."""

    auth: ApiToken


class TokenAuth(HttpBearer):
    """Find the token, count the request against its rate limit and record that it was used."""

    openapi_description = "A token created at /account/tokens/ or with `manage.py api_token create`."

    def authenticate(self, request: HttpRequest, token: str) -> ApiToken | None:
        api_token = tokens.find_active_token(token.strip())
        if api_token is None:
            log_security_event("api token refused", request)
            return None
        # counted separately in each web process: a shared counter would cost a database write per request
        if wait := rate_limits.take_token(api_token.code, settings.API_PER_MINUTE, time.monotonic()):
            log_security_event("api token held back", request, token=str(api_token.code))
            raise Throttled(math.ceil(wait))
        tokens.record_token_use(api_token)
        return api_token


rate_limits = TokenBuckets()
P = ParamSpec("P")
View = Callable[Concatenate[ApiRequest, P], Any]


def read_operation(
    router: Router, path: str, name: str, scopes: Collection[str], response_schema: Any, *errors: int
) -> Callable[[View[P]], Callable[..., Any]]:
    """Register a view at `path` for tokens with one of the `scopes`. `errors` are status codes besides the usual."""

    def register_view(view: View[P]) -> Callable[..., Any]:
        @wraps(view)
        def call_if_allowed(request: ApiRequest, *args: P.args, **kwargs: P.kwargs) -> Any:
            if not set(scopes) & set(request.auth.scopes):
                raise AuthorizationError(message=f"This token lacks the scope {' or '.join(scopes)}.")
            _check_parameters_known(request, kwargs.get("window"))
            return view(request, *args, **kwargs)

        description = (view.__doc__ or "").strip()
        router.api_operation(
            # HEAD is allowed as on every page; the OpenAPI description leaves it out
            ["GET", "HEAD"], path, response=response_schema, url_name=name, operation_id=name, summary=description.split(".")[0],
            description=f"{description}\n\nScope: {' or '.join(f'`{scope}`' for scope in scopes)}.", openapi_extra=openapi_schema.describe_errors(*errors),
        )(call_if_allowed)  # fmt: skip
        return call_if_allowed

    return register_view


def _check_parameters_known(request: HttpRequest, window: Any) -> None:
    """Raise ValidationError if the request has query parameters that the operation does not define."""
    known = type(window).model_fields if isinstance(window, PageQuery) else {}
    # A misspelt filter that is ignored would return more rows than the caller expects.
    if unknown := sorted(set(request.GET) - set(known)):
        raise ValidationError([{"loc": ("query", name[:60]), "msg": "unknown parameter"} for name in unknown])
