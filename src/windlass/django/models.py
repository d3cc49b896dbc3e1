"""Jobs, as far as Django has to know them: a name in the admin, and permissions. No table is read through it."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class Job(models.Model):
    id = models.CharField(primary_key=True, max_length=200)

    class Meta:
        managed = False
        default_permissions: ClassVar = ("view",)
        permissions: ClassVar = [("operate_job", "Can change jobs in the dashboard")]
        verbose_name = "job"
        verbose_name_plural = "jobs"
