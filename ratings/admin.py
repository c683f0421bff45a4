"""The back office sees studies, seats and the log, and changes none of them: that is what the pages are for.

Items, sources, assignments and ratings are not registered: here they would be joined, and the seal with them broken.
"""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from ratings.models import Rater, Study, StudyEvent


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # shared by three models
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
    list_display = ["study", "label", "simulated", "invited_at", "started_at"]
    list_select_related = ["study"]


@admin.register(StudyEvent)
class StudyEventAdmin(ReadOnlyAdmin):
    list_display = ["at", "study", "kind", "by", "detail"]
    list_select_related = ["study", "by"]
