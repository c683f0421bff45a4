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


def _allow_signed_in(methods: str) -> AccessRow:
    return _build_row(**dict.fromkeys(ROLES[1:], methods))


def _allow_raters(methods: str) -> AccessRow:
    return _build_row(rater=methods)


def _allow_staff(methods: str) -> AccessRow:
    return _build_row(staff=methods, superuser=methods)


def _allow_admins(methods: str) -> AccessRow:
    return _build_row(admin=methods, superuser=methods)


def _allow_members(methods: str, analyst: str | None = None) -> AccessRow:
    return _build_row(admin=methods, superuser=methods, analyst=methods if analyst is None else analyst)


# Each row with the names of its views.
_ROWS: tuple[tuple[AccessRow, str], ...] = (
    # Signing in
    (_allow_everybody(READ), "home ratings:admin_link ratings:about"),
    (_allow_everybody(BOTH), "login ratings:rater_link ratings:sign_in_here ratings:mail_link ratings:sign_in_code"),
    (_allow_signed_in(POST), "logout"),
    # The user's own account
    (_allow_signed_in(BOTH), "ratings:account ratings:confirm ratings:second_step"),
    (_allow_signed_in(READ), "ratings:second_step_qr"),
    (_allow_signed_in(POST), "ratings:backup_codes ratings:backup_file ratings:end_sessions"),
    (_build_row(analyst=BOTH, admin=BOTH, staff=BOTH, superuser=BOTH), "ratings:tokens"),
    (_build_row(analyst=POST, admin=POST, staff=POST, superuser=POST), "ratings:revoke_token"),
    # Machines: by token, or from this machine (wetbench_site/observability/health.py)
    (_allow_everybody(READ), "healthz readyz metrics"),
    # A rater's own pages
    (
        _allow_raters(READ),
        "ratings:desk ratings:my_ratings ratings:next ratings:done ratings:result ratings:review_item",
    ),
    (
        _allow_raters(BOTH),
        "ratings:profile ratings:agree ratings:guide ratings:practice ratings:rate ratings:withdraw ratings:review",
    ),
    (_allow_raters(POST), "ratings:erase ratings:keys ratings:practised ratings:draft ratings:finish"),
    # Studies
    (
        _build_row(analyst=READ, admin=READ, staff=READ, superuser=READ),
        """
        ratings:start ratings:studies ratings:help ratings:help_document ratings:help_picture
        """,
    ),
    (_build_row(admin=POST, staff=POST, superuser=POST), "ratings:delete_drafts"),
    (_allow_staff(BOTH), "ratings:new_study"),
    (_allow_members(READ), "ratings:study ratings:stock ratings:study_log ratings:first_results ratings:results"),
    (
        _allow_admins(BOTH),
        """
        ratings:build ratings:planner ratings:delete_study ratings:close_study ratings:unblind_study ratings:study_guide
        ratings:public_page
        """,
    ),
    (
        _allow_admins(READ),
        "ratings:public_page_preview ratings:preview ratings:matrix ratings:empty_cells ratings:plan_json",
    ),
    (
        _allow_admins(POST),
        """
        ratings:duplicate ratings:open_study ratings:pause_study ratings:resume_study ratings:reopen_study
        """,
    ),
    # Raters and team of a study
    (_allow_members(READ), "ratings:raters ratings:rater ratings:hours_csv"),
    (
        _allow_admins(POST),
        """
        ratings:invite ratings:make_links ratings:links_csv ratings:selected_raters ratings:add_raters ratings:remind
        ratings:make_link ratings:resend ratings:revoke ratings:remove_member
        """,
    ),
    (_allow_admins(BOTH), "ratings:withdraw_rater ratings:invite_list ratings:invitation_text ratings:members"),
    # Imports and exports
    (_allow_admins(BOTH), "ratings:import_items ratings:import_ratings"),
    (
        _allow_members(READ),
        """
        ratings:items ratings:item ratings:ratings_csv ratings:protocol_json ratings:certificate
        ratings:results_json ratings:table_csv ratings:figure ratings:compare ratings:compare_csv
        """,
    ),
    # Never the study's creator, who could act on the results.
    (_build_row(analyst=BOTH, superuser=BOTH), "ratings:interim"),
    (_allow_members(BOTH), "ratings:export"),
    (_allow_members(BOTH, analyst=READ), "ratings:machines"),
    # Blinding
    (_allow_members(BOTH, analyst=READ), "ratings:audit"),
    (_allow_admins(BOTH), "ratings:quarantine"),
    (_allow_staff(READ), "ratings:vetting"),
    (_allow_staff(BOTH), "ratings:vet ratings:vetting_sample"),
    (_allow_staff(POST), "ratings:reopen_twin ratings:vetting_samples"),
    # Longer work under way: of a study here, of a benchmark for staff (ratings.studies.access decides)
    (_allow_members(READ), "ratings:job ratings:job_file"),
    (_allow_members(POST), "ratings:cancel_job ratings:retry_job"),
    # Benchmarks
    (
        _allow_staff(READ),
        """
        ratings:benchmarks ratings:paper ratings:paper_json ratings:benchmark ratings:benchmark_json
        ratings:benchmark_csv ratings:benchmark_figure
        """,
    ),
    (_allow_staff(BOTH), "ratings:new_benchmark"),
    # The laboratory
    (
        _allow_staff(READ),
        """
        simulation:experiments simulation:experiment simulation:actions simulation:episodes simulation:episode
        simulation:beside simulation:run simulation:run_calls simulation:call simulation:call_request
        simulation:call_reply simulation:models simulation:twin simulation:twins simulation:runs
        simulation:tasks simulation:task simulation:mask simulation:code_episodes simulation:code_episode
        simulation:code_step simulation:code_diff simulation:code_file
        """,
    ),
    (
        _allow_staff(BOTH),
        """
        simulation:new_episodes simulation:new_person simulation:play simulation:continue_run simulation:new_twins
        simulation:new_code_run
        """,
    ),
    (
        _allow_staff(POST),
        """
        simulation:act_on_episodes simulation:act_on_runs
        simulation:stop_episode simulation:retry_episode simulation:stop_run simulation:pause_run
        simulation:resume_run simulation:try_again simulation:request_verdicts simulation:request_run_verdicts
        simulation:retry_twin simulation:task_gold simulation:act_on_code_episodes simulation:stop_code_episode
        simulation:retry_code_episode
        """,
    ),
    # The API needs a token and no session in every request: ratings.api checks what the token grants
    (
        _allow_everybody(READ),
        """
        api:openapi api:studies api:study api:items api:item api:ratings api:statistics api:contrasts
        api:episodes api:episode api:transcript api:tasks api:code_episodes api:code_episode
        """,
    ),
)
ACCESS_TABLE = {name: row for row, names in _ROWS for name in names.split()}
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
