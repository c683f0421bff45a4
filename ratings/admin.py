"""The admin site shows studies, raters and the log read-only; they are changed on the pages of the site.

Items, sources, assignments and ratings are not registered: showing them together would break the blinding.
"""

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest
from django_otp.plugins.otp_static.models import StaticDevice
from django_otp.plugins.otp_totp.models import TOTPDevice

from ratings.accounts import reauthentication, sessions, two_factor
from ratings.models import Rater, Study, StudyEvent
from ratings.raters import erasure
from ratings.results import study_log
from ratings.studies import StudyError
from wetbench_site.observability.logs import log_security_event


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # shared by all models here
    def has_view_permission(self, request: HttpRequest, *args: Any) -> bool:
        return bool(getattr(request.user, "is_superuser", False))

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, *args: Any) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, *args: Any) -> bool:
        return False


@admin.register(Study)
class StudyAdmin(ReadOnlyAdmin):
    list_display = ["name", "kind", "status", "created_at", "opened_at", "unblinded_at"]
    list_filter = ["kind", "status"]


@admin.register(Rater)
class RaterAdmin(ReadOnlyAdmin):
    list_display = ["study", "label", "simulated", "invited_at", "consented_at", "started_at", "finished_at"]
    exclude = ["user"]  # no page may show which person has which label
    list_select_related = ["study"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Rater]:
        # Without those of an opening that is being prepared.
        return super().get_queryset(request).filter(study__preparation_of=None)


class StudyEventList(ChangeList):
    """A page of study events with their descriptions. One query fetches the names of all accounts on the page."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        events = list(self.result_list)
        for event, line in zip(events, study_log.describe_events(events), strict=True):
            event.words = line.description


@admin.register(StudyEvent)
class StudyEventAdmin(ReadOnlyAdmin):
    list_display = ["at", "study", "kind", "by", "details"]
    list_select_related = ["study", "by"]

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return StudyEventList

    def details(self, event: StudyEvent) -> str:
        return str(getattr(event, "words", ""))


admin.site.unregister(User)
admin.site.unregister([TOTPDevice, StaticDevice])  # their pages would show the secrets


@admin.register(User)
class AccountAdmin(UserAdmin):  # type: ignore[type-arg]
    """Django's page of accounts, with erasure of a rater's personal data and reset of two-factor authentication."""

    actions = ["erase_personal_data", "reset_second_step"]

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        return reauthentication.ask_to_sign_in(request) or super().changeform_view(request, *args, **kwargs)

    def changelist_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        sign_in_page = reauthentication.ask_to_sign_in(request) if request.method == "POST" else None
        return sign_in_page or super().changelist_view(request, *args, **kwargs)

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        """Save the account. If its rights change or it is deactivated, end its sessions, except the current one."""
        super().save_model(request, obj, form, change)
        changed = set(form.changed_data) & {"is_active", "is_staff", "is_superuser", "groups", "user_permissions"}
        if changed:
            log_security_event("rights changed", request, user=obj.pk, fields=", ".join(sorted(changed)))
            own_session = request.session.session_key if obj.pk == request.user.pk else None
            sessions.end_sessions(obj, "rights changed", request, but=own_session)

    @admin.action(description="Reset two-factor authentication (for people who lost their phone and backup codes)")
    def reset_second_step(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        """Delete the two-factor devices of the selected accounts, except those of the signed-in superuser."""
        # To turn off their own, superusers must use the account page, which asks for a code.
        own_key = request.user.pk or 0
        for user in queryset.exclude(pk=own_key):
            if two_factor.delete_devices(user):
                sessions.end_sessions(user, "second step reset", request)
                log_security_event("second step reset", request, user=user.pk)
                self.message_user(request, f"{user.get_username()} can now sign in without two-factor authentication.")
        if queryset.filter(pk=own_key).exists():
            self.message_user(request, "You cannot reset your own account; ask another superuser.", messages.ERROR)

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> Any:
        """Change the password of another account, after re-authentication."""
        # Never the user's own: this page does not ask for the old password, and unblinding relies on passwords.
        user = self.get_object(request, unquote(id))
        if user is not None and user.pk == request.user.pk:
            raise PermissionDenied
        if sign_in_page := reauthentication.ask_to_sign_in(request):
            return sign_in_page
        response = super().user_change_password(request, id, form_url)
        if user is not None and request.method == "POST" and response.status_code == 302:
            sessions.end_sessions(user, "password changed", request)
            log_security_event("password changed", request, user=user.pk)
        return response

    # Deleting an account would remove the person behind its ratings. Its personal data can be erased instead.
    def has_delete_permission(self, request: HttpRequest, *args: Any) -> bool:
        return False

    @admin.action(description="Erase personal data (keeps codes and ratings; cannot be undone)")
    def erase_personal_data(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        for user in queryset:
            try:
                erasure.erase_person(user, request.user if isinstance(request.user, User) else None)
            except StudyError as error:
                self.message_user(request, str(error), messages.ERROR)
            else:
                self.message_user(request, f"Personal data of account {user.pk} erased.", messages.SUCCESS)
