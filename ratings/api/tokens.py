"""API tokens: create, find and revoke them. Only their SHA-256 is stored. A token of a user without access does not work."""

import math
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from functools import wraps
from typing import Any, Concatenate, ParamSpec
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from ninja import Router
from ninja.errors import AuthorizationError, Throttled, ValidationError
from ninja.security import HttpBearer

from ratings.api.responses import PageQuery, describe_errors
from ratings.models import ApiToken, Membership, Study
from ratings.studies import access
from wetbench_site.middleware.write_limit import TokenBuckets
from wetbench_site.observability.logs import log_security_event
from wetbench_site.text import hash_text

SCOPE_DESCRIPTIONS: Mapping[str, str] = {
    "studies:read": "studies in which you have a role, with their protocols and progress",
    "items:blinded": "items under their random codes; after unblinding also what raters saw of them",
    "items:unblinded": "sources of items and ratings after unblinding",
    "ratings:read": "ratings; their sources only together with items:unblinded",
    "statistics:read": "the analysis of unblinded studies",
    "episodes:read": "episodes of the laboratory, replication tasks and code episodes (staff only)",
    "transcripts:read": "transcripts of episodes: actions and outcomes, without prompts and replies (staff only)",
}
LABORATORY_SCOPES = frozenset({"episodes:read", "transcripts:read"})

TOKEN_PREFIX = "wb_"
DEFAULT_DAYS, MAX_DAYS, MAX_ACTIVE_TOKENS = 90, 365, 20
_MARK_INTERVAL = timedelta(minutes=1)


class TokenError(ValueError):
    """The token cannot be created. The message explains why."""


def can_have_tokens(user: User) -> bool:
    """Return whether the user is staff or has a role in a study. Raters have no access to the API."""
    return user.is_active and (user.is_staff or access.list_studies(user).exists())


def create_token(
    user: User,
    name: str,
    scopes: Collection[str],
    days: int = DEFAULT_DAYS,
    studies: Collection[Study] | None = None,
    code: UUID | None = None,
) -> tuple[ApiToken, str]:
    """Return a new token and its text, which is stored nowhere. `studies` None: all that its user may read.

    `code` is created with the form, so that the same form cannot create two tokens. Raises TokenError with every problem.
    """
    _check_token_request(user, name, scopes, days, studies)
    text, now = TOKEN_PREFIX + secrets.token_urlsafe(32), timezone.now()
    values = {"code": code} if code else {}
    try:
        # an inner transaction: the IntegrityError must not break the one around it
        with transaction.atomic():
            token = ApiToken.objects.create(
                user=user, name=name.strip(), token_sha256=hash_text(text), scopes=sorted(scopes), limited=studies is not None,
                created_at=now, expires_at=now + timedelta(days=days), **values,
            )  # fmt: skip
            token.studies.set(studies or ())
    except IntegrityError as error:
        used = "This form has already created a token, and a token is shown only once. Create another one."
        raise TokenError(used) from error
    return token, text


def revoke_token(token: ApiToken) -> bool:
    """Revoke the token. Return False if it was already revoked."""
    return bool(ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=timezone.now()))


def list_tokens(user: User) -> QuerySet[ApiToken]:
    """Return all tokens of a user, newest first, with their studies."""
    return ApiToken.objects.filter(user=user).prefetch_related("studies")


def find_active_token(text: str) -> ApiToken | None:
    """Return the token with its user if it currently works, otherwise None. Needs one query."""
    matches = ApiToken.objects.select_related("user").filter(token_sha256=hash_text(text), revoked_at=None)
    # checked on every request, so that a token stops working when the last role is removed
    has_role = Exists(Membership.objects.filter(user=OuterRef("user")))
    entitled = Q(user__is_staff=True) | Q(user__is_superuser=True) | has_role
    return matches.filter(entitled, expires_at__gt=timezone.now(), user__is_active=True).first()


def record_token_use(token: ApiToken) -> None:
    """Store the time of use, at most once a minute."""
    before = timezone.now() - _MARK_INTERVAL
    if token.last_used_at is None or token.last_used_at < before:
        # repeated in the UPDATE, so that only one of several simultaneous requests writes
        unmarked = Q(last_used_at=None) | Q(last_used_at__lt=before)
        ApiToken.objects.filter(unmarked, pk=token.pk).update(last_used_at=timezone.now())


def select_readable_studies(token: ApiToken) -> QuerySet[Study]:
    """Return the studies that the token covers and in which its user currently has a role."""
    user_studies = access.list_studies(token.user)
    return user_studies.filter(pk__in=token.studies.values("pk")) if token.limited else user_studies


def _check_token_request(
    user: User, name: str, scopes: Collection[str], days: int, studies: Collection[Study] | None
) -> None:
    unknown = sorted(set(scopes) - set(SCOPE_DESCRIPTIONS))
    laboratory_scopes = sorted(set(scopes) & LABORATORY_SCOPES)
    keys = {study.pk for study in studies or ()}
    can_read_all = access.list_studies(user).filter(pk__in=keys).count() == len(keys)
    checks = (
        (not can_have_tokens(user), f"{user.get_username()} cannot read any study or episode, so a token would be useless"),
        (not name.strip() or len(name) > 60, "Give the token a name of at most 60 characters"),
        (bool(unknown), f"Unknown scope {', '.join(unknown)}; available: {', '.join(SCOPE_DESCRIPTIONS)}"),
        (not scopes, "Choose at least one scope"),
        (bool(laboratory_scopes) and not user.is_staff, f"Only staff can have {' and '.join(laboratory_scopes)}"),
        (bool(laboratory_scopes) and studies is not None, "Episodes do not belong to studies: a token limited to studies cannot have "
                                                      f"{' and '.join(laboratory_scopes)}"),
        (not 1 <= days <= MAX_DAYS, f"Choose a lifetime of 1 to {MAX_DAYS} days"),
        (studies is not None and not studies, "Choose the studies to which the token is limited, or do not limit it"),
        (not can_read_all, f"{user.get_username()} has no role in one of these studies"),
        (ApiToken.objects.filter(user=user, revoked_at=None, expires_at__gt=timezone.now()).count() >= MAX_ACTIVE_TOKENS, f"{MAX_ACTIVE_TOKENS} tokens are already active; revoke one first"),
    )  # fmt: skip
    if problems := [message for failed, message in checks if failed]:
        raise TokenError(f"{'. '.join(problems)}.")


class ApiRequest(HttpRequest):
    """A request with a valid token."""

    auth: ApiToken


class TokenAuth(HttpBearer):
    """Find the token, count the request against its rate limit and record that it was used."""

    openapi_description = "A token created at /account/tokens/ or with `manage.py api_token create`."

    def authenticate(self, request: HttpRequest, token: str) -> ApiToken | None:
        api_token = find_active_token(token.strip())
        if api_token is None:
            log_security_event("api token refused", request)
            return None
        # counted separately in each web process: a shared counter would cost a database write per request
        if wait := rate_limits.take_token(api_token.code, settings.API_PER_MINUTE, time.monotonic()):
            log_security_event("api token held back", request, token=str(api_token.code))
            raise Throttled(math.ceil(wait))
        record_token_use(api_token)
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
            description=f"{description}\n\nScope: {' or '.join(f'`{scope}`' for scope in scopes)}.", openapi_extra=describe_errors(*errors),
        )(call_if_allowed)  # fmt: skip
        return call_if_allowed

    return register_view


def _check_parameters_known(request: HttpRequest, window: Any) -> None:
    """Raise ValidationError if the request has query parameters that the operation does not define."""
    known = type(window).model_fields if isinstance(window, PageQuery) else {}
    # A misspelt filter that is ignored would return more rows than the caller expects.
    if unknown := sorted(set(request.GET) - set(known)):
        raise ValidationError([{"loc": ("query", name[:60]), "msg": "unknown parameter"} for name in unknown])
