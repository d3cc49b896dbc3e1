"""Jobs in Django's admin: look, not touch. What changes jobs is the dashboard, which is linked to, and the command line."""

from __future__ import annotations

from typing import Any, Final

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.template.response import TemplateResponse
from django.urls import path

from windlass.admin.views import Filter
from windlass.apart import apart
from windlass.django.models import Job
from windlass.django.program import the_app
from windlass.errors import InvalidInput, JobNotFound
from windlass.types import STATES

PAGE: Final = 50


@admin.register(Job)
class JobAdmin(admin.ModelAdmin):
    def get_urls(self) -> list[Any]:
        """Two pages; the others would look for a table."""
        view = self.admin_site.admin_view
        return [
            path("", view(self.changelist_view), name="windlass_job_changelist"),
            path("<path:object_id>/change/", view(self.change_view), name="windlass_job_change"),
        ]

    def has_add_permission(self, request: Any) -> bool:
        return False

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def changelist_view(self, request: Any, extra_context: Any = None) -> Any:
        if not self.has_view_permission(request):
            raise PermissionDenied
        asked: dict[str, Any] = {name: request.GET.get(name) or None for name in ("state", "queue", "type")}
        try:
            found = apart(
                lambda: the_app().admin.jobs(Filter(**asked), limit=PAGE, cursor=request.GET.get("after") or None)
            )
        except InvalidInput as error:
            raise Http404(str(error)) from None
        further = request.GET.copy()
        further["after"] = found.cursor or ""
        return self._page(
            request, "list", extra_context, title="Jobs", found=found, asked=asked, states=STATES,
            further=further.urlencode() if found.cursor else None,
        )  # fmt: skip

    def change_view(self, request: Any, object_id: str, form_url: str = "", extra_context: Any = None) -> Any:
        if not self.has_view_permission(request):
            raise PermissionDenied
        try:
            found = apart(lambda: the_app().admin.job(object_id))
        except JobNotFound as error:
            raise Http404(str(error)) from None
        return self._page(request, "one", extra_context, title=f"Job {found.job.id}", found=found)

    def _page(self, request: Any, name: str, extra: Any, **shown: Any) -> Any:
        context = {
            **self.admin_site.each_context(request), "opts": self.opts, "dashboard": the_app().conf.dashboard, **shown,
            **(extra or {}),
        }  # fmt: skip
        return TemplateResponse(request, f"admin/windlass/job/{name}.html", context)
