"""`/api/templates`: reusable jobs, in versions."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from windlass.admin.schedules import TemplateView, template_view
from windlass.definitions import TemplateOptions
from windlass.web.api.asking import Gone
from windlass.web.arguments import whole
from windlass.web.request import Request


class TemplateWish(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is left out is as the task says, or as usual."""

    task: str
    params: Annotated[dict[str, Any], Meta(description="arguments by name")] = {}
    queue: str | UnsetType = UNSET
    priority: int | UnsetType = UNSET
    timeout: str | float | UnsetType = UNSET
    org_id: str | UnsetType = UNSET
    tags: tuple[str, ...] | UnsetType = UNSET
    limits: tuple[str, ...] | UnsetType = UNSET
    headers: dict[str, str] | UnsetType = UNSET


class TemplateVersions(Struct, frozen=True):
    templates: tuple[TemplateView, ...]


class Archived(Struct, frozen=True):
    """`changed`: it was in use before."""

    name: str
    changed: bool


async def listed(request: Request[None, None]) -> TemplateVersions:
    """The newest version of each."""
    return TemplateVersions(tuple(template_view(row) for row in await request.admin.templates.list()))


async def versions(request: Request[None, None]) -> TemplateVersions:
    """Every version, oldest first. Jobs keep the version that they were made of."""
    return TemplateVersions(
        tuple(template_view(row) for row in await request.admin.templates.versions(request.path["name"]))
    )


async def put(request: Request[None, TemplateWish]) -> TemplateView:
    """Make a template, or a new version of it."""
    wish = request.body
    said: TemplateOptions = {  # type: ignore[assignment]
        name: value for name, value in structs.asdict(wish).items() if name not in ("task", "params") and value is not UNSET
    }
    return template_view(await request.admin.templates.put(request.path["name"], wish.task, whole(wish.params), **said))


async def archive(request: Request[None, None]) -> Archived:
    """Make no more jobs of it."""
    name = request.path["name"]
    return Archived(name, await request.admin.templates.archive(name))


async def delete(request: Request[None, None]) -> Gone:
    """Remove it with all its versions, unless a schedule needs it."""
    await request.admin.templates.delete(request.path["name"])
    return Gone(request.path["name"])
