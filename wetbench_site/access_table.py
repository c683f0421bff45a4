"""Who may use which URL with which methods. A URL that is not in this table does not exist, for anybody.

The middleware below checks what the account alone shows; views check the study, rater or item (`ratings.studies.access`).
Anything forbidden returns 404, with the same body as any other 404. Anonymous users are redirected to the sign-in page,
except from the admin site. tests/promises/test_access.py requests every URL in every role with every method.
"""

from collections.abc import Callable, Mapping
from typing import Any

from django.contrib.auth.models import AnonymousUser, User
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed

from wetbench_site.observability.logs import log_security_event

ROLES = ("stranger", "account", "rater", "analyst", "admin", "staff", "superuser")
# stranger: not signed in.  account: anybody signed in.  staff: sees the laboratory, may create studies.
# rater: of their own assignments.  analyst, admin: in that study, or in any study if the URL names none.

AccessRow = Mapping[str, frozenset[str]]
READ, POST, BOTH = "GET HEAD", "POST", "GET HEAD POST"


def _build_row(**methods: str) -> AccessRow:
    return {role: frozenset(methods.get(role, "").split()) for role in ROLES}


def _allow_everybody(methods: str) -> AccessRow:
    return _build_row(**dict.fromkeys(ROLES, methods))


def _allow_raters(methods: str) -> AccessRow:
    return _build_row(rater=methods)


def _allow_staff(methods: str) -> AccessRow:
    return _build_row(staff=methods, superuser=methods)


def _allow_admins(methods: str) -> AccessRow:
    return _build_row(admin=methods, superuser=methods)


def _allow_members(methods: str, analyst: str | None = None) -> AccessRow:
    return _build_row(admin=methods, superuser=methods, analyst=methods if analyst is None else analyst)


ACCESS_TABLE: dict[str, AccessRow] = {
    # Signing in
    "home": _allow_everybody(READ),
    "login": _allow_everybody(BOTH),
    "logout": _build_row(**dict.fromkeys(ROLES[1:], POST)),
    "ratings:rater_link": _allow_everybody(BOTH),
    "ratings:admin_link": _allow_everybody(READ),
    "ratings:sign_in_here": _allow_everybody(BOTH),
    "ratings:mail_link": _allow_everybody(BOTH),
    "ratings:sign_in_code": _allow_everybody(BOTH),
    # The user's own account
    "ratings:account": _build_row(**dict.fromkeys(ROLES[1:], BOTH)),
    "ratings:confirm": _build_row(**dict.fromkeys(ROLES[1:], BOTH)),
    "ratings:second_step": _build_row(**dict.fromkeys(ROLES[1:], BOTH)),
    "ratings:second_step_qr": _build_row(**dict.fromkeys(ROLES[1:], READ)),
    "ratings:backup_codes": _build_row(**dict.fromkeys(ROLES[1:], POST)),
    "ratings:backup_file": _build_row(**dict.fromkeys(ROLES[1:], POST)),
    "ratings:end_sessions": _build_row(**dict.fromkeys(ROLES[1:], POST)),
    "ratings:tokens": _build_row(analyst=BOTH, admin=BOTH, staff=BOTH, superuser=BOTH),
    "ratings:revoke_token": _build_row(analyst=POST, admin=POST, staff=POST, superuser=POST),
    # Machines: by token, or from this machine (wetbench_site/observability/health.py)
    "healthz": _allow_everybody(READ),
    "readyz": _allow_everybody(READ),
    "metrics": _allow_everybody(READ),
    # A rater's own pages
    "ratings:desk": _allow_raters(READ),
    "ratings:profile": _allow_raters(BOTH),
    "ratings:erase": _allow_raters(POST),
    "ratings:keys": _allow_raters(POST),
    "ratings:my_ratings": _allow_raters(READ),
    "ratings:agree": _allow_raters(BOTH),
    "ratings:guide": _allow_raters(BOTH),
    "ratings:practice": _allow_raters(BOTH),
    "ratings:practised": _allow_raters(POST),
    "ratings:next": _allow_raters(READ),
    "ratings:rate": _allow_raters(BOTH),
    "ratings:draft": _allow_raters(POST),
    "ratings:done": _allow_raters(READ),
    "ratings:finish": _allow_raters(POST),
    "ratings:withdraw": _allow_raters(BOTH),
    "ratings:result": _allow_raters(READ),
    # Studies
    "ratings:studies": _build_row(analyst=READ, admin=READ, staff=READ, superuser=READ),
    "ratings:new_study": _allow_staff(BOTH),
    "ratings:study": _allow_members(READ),
    "ratings:stock": _allow_members(READ),
    "ratings:build": _allow_admins(BOTH),
    "ratings:preview": _allow_admins(READ),
    "ratings:matrix": _allow_admins(READ),
    "ratings:empty_cells": _allow_admins(READ),
    "ratings:plan_json": _allow_admins(READ),
    "ratings:duplicate": _allow_admins(POST),
    "ratings:delete_study": _allow_admins(BOTH),
    "ratings:open_study": _allow_admins(POST),
    "ratings:pause_study": _allow_admins(POST),
    "ratings:resume_study": _allow_admins(POST),
    "ratings:close_study": _allow_admins(POST),
    "ratings:reopen_study": _allow_admins(POST),
    "ratings:unblind_study": _allow_admins(BOTH),
    "ratings:study_guide": _allow_admins(BOTH),
    # Raters and team of a study
    "ratings:raters": _allow_members(READ),
    "ratings:invite": _allow_admins(POST),
    "ratings:add_raters": _allow_admins(POST),
    "ratings:remind": _allow_admins(POST),
    "ratings:make_link": _allow_admins(POST),
    "ratings:resend": _allow_admins(POST),
    "ratings:revoke": _allow_admins(POST),
    "ratings:withdraw_rater": _allow_admins(BOTH),
    "ratings:members": _allow_admins(BOTH),
    "ratings:remove_member": _allow_admins(POST),
    # Imports and exports
    "ratings:import_items": _allow_admins(BOTH),
    "ratings:import_ratings": _allow_admins(BOTH),
    "ratings:items": _allow_members(READ),
    "ratings:item": _allow_members(READ),
    "ratings:interim": _build_row(
        analyst=BOTH, superuser=BOTH
    ),  # never the study's creator, who could act on the results
    "ratings:ratings_csv": _allow_members(READ),
    "ratings:protocol_json": _allow_members(READ),
    "ratings:certificate": _allow_members(READ),
    "ratings:export": _allow_members(BOTH),
    "ratings:results_json": _allow_members(READ),
    "ratings:table_csv": _allow_members(READ),
    "ratings:figure": _allow_members(READ),
    "ratings:compare": _allow_members(READ),
    "ratings:compare_csv": _allow_members(READ),
    "ratings:machines": _allow_members(BOTH, analyst=READ),
    # Blinding
    "ratings:audit": _allow_members(BOTH, analyst=READ),
    "ratings:quarantine": _allow_admins(BOTH),
    "ratings:vetting": _allow_staff(READ),
    "ratings:vet": _allow_staff(BOTH),
    # Longer work under way: of a study here, of a benchmark for staff (ratings.studies.access decides)
    "ratings:job": _allow_members(READ),
    "ratings:job_file": _allow_members(READ),
    "ratings:cancel_job": _allow_members(POST),
    "ratings:retry_job": _allow_members(POST),
    # Benchmarks
    "ratings:benchmarks": _allow_staff(READ),
    "ratings:paper": _allow_staff(READ),
    "ratings:paper_json": _allow_staff(READ),
    "ratings:new_benchmark": _allow_staff(BOTH),
    "ratings:benchmark": _allow_staff(READ),
    "ratings:benchmark_json": _allow_staff(READ),
    "ratings:benchmark_csv": _allow_staff(READ),
    "ratings:benchmark_figure": _allow_staff(READ),
    # The laboratory
    "simulation:experiments": _allow_staff(READ),
    "simulation:experiment": _allow_staff(READ),
    "simulation:actions": _allow_staff(READ),
    "simulation:episodes": _allow_staff(READ),
    "simulation:new_episodes": _allow_staff(BOTH),
    "simulation:new_person": _allow_staff(BOTH),
    "simulation:episode": _allow_staff(READ),
    "simulation:beside": _allow_staff(READ),
    "simulation:play": _allow_staff(BOTH),
    "simulation:stop_episode": _allow_staff(POST),
    "simulation:retry_episode": _allow_staff(POST),
    "simulation:run": _allow_staff(READ),
    "simulation:run_calls": _allow_staff(READ),
    "simulation:stop_run": _allow_staff(POST),
    "simulation:pause_run": _allow_staff(POST),
    "simulation:resume_run": _allow_staff(POST),
    "simulation:try_again": _allow_staff(POST),
    "simulation:request_verdicts": _allow_staff(POST),
    "simulation:request_run_verdicts": _allow_staff(POST),
    "simulation:continue_run": _allow_staff(BOTH),
    "simulation:call": _allow_staff(READ),
    "simulation:call_request": _allow_staff(READ),
    "simulation:call_reply": _allow_staff(READ),
    "simulation:models": _allow_staff(READ),
    "simulation:twins": _allow_staff(BOTH),
    "simulation:twin": _allow_staff(READ),
    "simulation:retry_twin": _allow_staff(POST),
    # The API needs a token and no session in every request: ratings.api checks what the token grants
    "api:openapi": _allow_everybody(READ),
    "api:studies": _allow_everybody(READ),
    "api:study": _allow_everybody(READ),
    "api:items": _allow_everybody(READ),
    "api:item": _allow_everybody(READ),
    "api:ratings": _allow_everybody(READ),
    "api:statistics": _allow_everybody(READ),
    "api:contrasts": _allow_everybody(READ),
    "api:episodes": _allow_everybody(READ),
    "api:episode": _allow_everybody(READ),
    "api:transcript": _allow_everybody(READ),
}
ADMIN_SITE: AccessRow = _build_row(superuser=BOTH)  # everything of Django's admin


def find_access_row(view_name: str) -> AccessRow | None:
    """Return the row of a view name ("namespace:name"), or None if there is no such page."""
    return ADMIN_SITE if view_name.startswith("admin:") else ACCESS_TABLE.get(view_name)


def list_possible_roles(user: User | AnonymousUser) -> tuple[str, ...]:
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
        row = find_access_row(match.view_name) if match else None
        if row is None:
            raise Http404
        allowed_methods = frozenset[str]().union(*(row[role] for role in list_possible_roles(request.user)))
        if not allowed_methods and not request.user.is_authenticated and row is not ADMIN_SITE:
            return None  # the next middleware redirects to the sign-in page
        if not allowed_methods:
            if row is ADMIN_SITE:
                log_security_event("back office refused", request)
            raise Http404
        return None if request.method in allowed_methods else HttpResponseNotAllowed(sorted(allowed_methods))
