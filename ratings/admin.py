"""The back office sees studies, seats and the log, and changes none of them: that is what the pages are for.

Items, sources, assignments and ratings are not registered: here they would be joined, and the seal with them broken.
"""

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from ratings import erasing
from ratings.models import Rater, Study, StudyEvent
from ratings.studies import StudyError


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
    exclude = ["user"]  # whose a code is shows nowhere
    list_select_related = ["study"]


@admin.register(StudyEvent)
class StudyEventAdmin(ReadOnlyAdmin):
    list_display = ["at", "study", "kind", "by", "detail"]
    list_select_related = ["study", "by"]


admin.site.unregister(User)


@admin.register(User)
class AccountAdmin(UserAdmin):  # type: ignore[type-arg]
    """Django's own, and the erasure of a rater's personal data; deleting an account would take its seats' holder away."""

    actions = ["erase_personal_data"]

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:
        """Not one's own: this page does not ask for the old password, and unblinding asks for the one there is."""
        user = self.get_object(request, unquote(id))
        if user is not None and user.pk == request.user.pk:
            raise PermissionDenied
        return super().user_change_password(request, id, form_url)

    def has_delete_permission(self, request: HttpRequest, *args: Any) -> bool:
        return False

    @admin.action(description="Erase personal data: codes and ratings stay, and it cannot be undone")
    def erase_personal_data(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        for user in queryset:
            try:
                erasing.erase(user, request.user if isinstance(request.user, User) else None)
            except StudyError as error:
                self.message_user(request, str(error), messages.ERROR)
            else:
                self.message_user(request, f"Personal data of account {user.pk} erased.", messages.SUCCESS)
