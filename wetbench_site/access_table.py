"""Who may use which URL with which methods. A URL that is not in this table does not exist, for anybody.

The middleware below checks what the account alone shows; views check the study, rater or item (`ratings.studies.access`).
Anything forbidden returns 404, with the same body as any other 404. Anonymous users are redirected to the sign-in page,
except from the admin site. tests/promises/test_access.py requests every URL in every role with every method.
"""

from collections.abc import Callable, Mapping
from typing import Any

from django.contrib.auth.models import AnonymousUser, User
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed

from wetbench_site.observability.audit_log import security_event

ROLES = ("stranger", "account", "rater", "analyst", "admin", "staff", "superuser")
# stranger: not signed in.  account: anybody signed in.  staff: sees the laboratory, may create studies.
# rater: of their own assignments.  analyst, admin: in that study, or in any study if the URL names none.

Row = Mapping[str, frozenset[str]]
READ, POST, BOTH = "GET HEAD", "POST", "GET HEAD POST"


def _row(**methods: str) -> Row:
    return {role: frozenset(methods.get(role, "").split()) for role in ROLES}


def _all(methods: str) -> Row:
    return _row(**dict.fromkeys(ROLES, methods))


def _rater(methods: str) -> Row:
    return _row(rater=methods)


def _laboratory(methods: str) -> Row:
    return _row(staff=methods, superuser=methods)


def _admins(methods: str) -> Row:
    return _row(admin=methods, superuser=methods)


def _members(methods: str, analyst: str | None = None) -> Row:
    return _row(admin=methods, superuser=methods, analyst=methods if analyst is None else analyst)


TABLE: dict[str, Row] = {
    # Signing in
    "home": _all(READ),
    "login": _all(BOTH),
    "logout": _row(**dict.fromkeys(ROLES[1:], POST)),
    "ratings:rater_link": _all(BOTH),
    "ratings:admin_link": _all(READ),
    "ratings:sign_in_here": _all(BOTH),
    "ratings:mail_link": _all(BOTH),
    "ratings:sign_in_code": _all(BOTH),
    # The user's own account
    "ratings:account": _row(**dict.fromkeys(ROLES[1:], BOTH)),
    "ratings:confirm": _row(**dict.fromkeys(ROLES[1:], BOTH)),
    "ratings:second_step": _row(**dict.fromkeys(ROLES[1:], BOTH)),
    "ratings:second_step_qr": _row(**dict.fromkeys(ROLES[1:], READ)),
    "ratings:backup_codes": _row(**dict.fromkeys(ROLES[1:], POST)),
    "ratings:backup_file": _row(**dict.fromkeys(ROLES[1:], POST)),
    "ratings:end_sessions": _row(**dict.fromkeys(ROLES[1:], POST)),
    "ratings:tokens": _row(analyst=BOTH, admin=BOTH, staff=BOTH, superuser=BOTH),
    "ratings:revoke_token": _row(analyst=POST, admin=POST, staff=POST, superuser=POST),
    # Machines: by token, or from this machine (wetbench_site/observability/health.py)
    "healthz": _all(READ),
    "readyz": _all(READ),
    "metrics": _all(READ),
    # A rater's own pages
    "ratings:desk": _rater(READ),
    "ratings:profile": _rater(BOTH),
    "ratings:erase": _rater(POST),
    "ratings:keys": _rater(POST),
    "ratings:my_ratings": _rater(READ),
    "ratings:agree": _rater(BOTH),
    "ratings:guide": _rater(BOTH),
    "ratings:practice": _rater(BOTH),
    "ratings:practised": _rater(POST),
    "ratings:next": _rater(READ),
    "ratings:rate": _rater(BOTH),
    "ratings:draft": _rater(POST),
    "ratings:done": _rater(READ),
    "ratings:finish": _rater(POST),
    "ratings:withdraw": _rater(BOTH),
    "ratings:result": _rater(READ),
    # Studies
    "ratings:studies": _row(analyst=READ, admin=READ, staff=READ, superuser=READ),
    "ratings:new_study": _laboratory(BOTH),
    "ratings:study": _members(READ),
    "ratings:stock": _members(READ),
    "ratings:build": _admins(BOTH),
    "ratings:preview": _admins(READ),
    "ratings:matrix": _admins(READ),
    "ratings:empty_cells": _admins(READ),
    "ratings:plan_json": _admins(READ),
    "ratings:duplicate": _admins(POST),
    "ratings:delete_study": _admins(BOTH),
    "ratings:open_study": _admins(POST),
    "ratings:pause_study": _admins(POST),
    "ratings:resume_study": _admins(POST),
    "ratings:close_study": _admins(POST),
    "ratings:reopen_study": _admins(POST),
    "ratings:unblind_study": _admins(BOTH),
    "ratings:study_guide": _admins(BOTH),
    # Raters and team of a study
    "ratings:raters": _members(READ),
    "ratings:invite": _admins(POST),
    "ratings:add_seats": _admins(POST),
    "ratings:remind": _admins(POST),
    "ratings:make_link": _admins(POST),
    "ratings:resend": _admins(POST),
    "ratings:revoke": _admins(POST),
    "ratings:withdraw_rater": _admins(BOTH),
    "ratings:members": _admins(BOTH),
    "ratings:remove_member": _admins(POST),
    # Imports and exports
    "ratings:import_items": _admins(BOTH),
    "ratings:import_ratings": _admins(BOTH),
    "ratings:items": _members(READ),
    "ratings:item": _members(READ),
    "ratings:interim": _row(analyst=BOTH, superuser=BOTH),  # never the study's creator, who could act on the results
    "ratings:ratings_csv": _members(READ),
    "ratings:protocol_json": _members(READ),
    "ratings:certificate": _members(READ),
    "ratings:export": _members(BOTH),
    "ratings:results_json": _members(READ),
    "ratings:table_csv": _members(READ),
    "ratings:figure": _members(READ),
    "ratings:compare": _members(READ),
    "ratings:compare_csv": _members(READ),
    "ratings:machines": _members(BOTH, analyst=READ),
    # Blinding
    "ratings:audit": _members(BOTH, analyst=READ),
    "ratings:quarantine": _admins(BOTH),
    "ratings:vetting": _laboratory(READ),
    "ratings:vet": _laboratory(BOTH),
    # Longer work under way: of a study here, of a benchmark for staff (ratings.studies.job_access decides)
    "ratings:job": _members(READ),
    "ratings:job_file": _members(READ),
    "ratings:cancel_job": _members(POST),
    "ratings:retry_job": _members(POST),
    # Benchmarks
    "ratings:benchmarks": _laboratory(READ),
    "ratings:paper": _laboratory(READ),
    "ratings:paper_json": _laboratory(READ),
    "ratings:new_benchmark": _laboratory(BOTH),
    "ratings:benchmark": _laboratory(READ),
    "ratings:benchmark_json": _laboratory(READ),
    "ratings:benchmark_csv": _laboratory(READ),
    "ratings:benchmark_figure": _laboratory(READ),
    # The laboratory
    "simulation:experiments": _laboratory(READ),
    "simulation:experiment": _laboratory(READ),
    "simulation:actions": _laboratory(READ),
    "simulation:episodes": _laboratory(READ),
    "simulation:new_episodes": _laboratory(BOTH),
    "simulation:new_person": _laboratory(BOTH),
    "simulation:episode": _laboratory(READ),
    "simulation:beside": _laboratory(READ),
    "simulation:play": _laboratory(BOTH),
    "simulation:stop_episode": _laboratory(POST),
    "simulation:retry_episode": _laboratory(POST),
    "simulation:run": _laboratory(READ),
    "simulation:run_calls": _laboratory(READ),
    "simulation:stop_run": _laboratory(POST),
    "simulation:pause_run": _laboratory(POST),
    "simulation:resume_run": _laboratory(POST),
    "simulation:try_again": _laboratory(POST),
    "simulation:request_verdicts": _laboratory(POST),
    "simulation:request_run_verdicts": _laboratory(POST),
    "simulation:continue_run": _laboratory(BOTH),
    "simulation:call": _laboratory(READ),
    "simulation:call_request": _laboratory(READ),
    "simulation:call_reply": _laboratory(READ),
    "simulation:models": _laboratory(READ),
    "simulation:twins": _laboratory(BOTH),
    "simulation:twin": _laboratory(READ),
    "simulation:retry_twin": _laboratory(POST),
    # The API needs a token and no session in every request: ratings.api checks what the token grants
    "api:openapi": _all(READ),
    "api:studies": _all(READ),
    "api:study": _all(READ),
    "api:items": _all(READ),
    "api:item": _all(READ),
    "api:ratings": _all(READ),
    "api:statistics": _all(READ),
    "api:contrasts": _all(READ),
    "api:episodes": _all(READ),
    "api:episode": _all(READ),
    "api:transcript": _all(READ),
}
BACK_OFFICE: Row = _row(superuser=BOTH)  # everything of Django's admin


def row_of(view_name: str) -> Row | None:
    """Return the row of a view name ("namespace:name"), or None if there is no such page."""
    return BACK_OFFICE if view_name.startswith("admin:") else TABLE.get(view_name)


def roles_of(user: User | AnonymousUser) -> tuple[str, ...]:
    """Return the roles that this account could have somewhere, without a query."""
    if not user.is_authenticated:
        return ("stranger",)
    if user.is_superuser:
        return ("superuser",)
    return ("account", "rater", "analyst", "admin", *(["staff"] if user.is_staff else []))


class AccessTable:
    """Reject requests that the table does not allow: 404, or 405 for a method that a permitted page does not have."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> HttpResponse | None:
        match = request.resolver_match
        row = row_of(match.view_name) if match else None
        if row is None:
            raise Http404
        allowed_methods = frozenset[str]().union(*(row[role] for role in roles_of(request.user)))
        if not allowed_methods and not request.user.is_authenticated and row is not BACK_OFFICE:
            return None  # the next middleware redirects to the sign-in page
        if not allowed_methods:
            if row is BACK_OFFICE:
                security_event("back office refused", request)
            raise Http404
        return None if request.method in allowed_methods else HttpResponseNotAllowed(sorted(allowed_methods))
