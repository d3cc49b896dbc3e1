"""`windlass worker windlass.django.worker:app`: a project as a program that workers and their children import. It is found
by DJANGO_SETTINGS_MODULE; `manage.py windlass worker` does the same."""

from __future__ import annotations

import django
from django.apps import apps

from windlass.django.program import the_app

if not apps.ready:
    django.setup()

app = the_app()
