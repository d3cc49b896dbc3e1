"""On a SQLite file beside manage.py, or on PostgreSQL where SHOP_POSTGRES_HOST names a server."""

import os
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent.parent
SECRET_KEY = os.environ.get("SHOP_SECRET_KEY", "only-for-development")
DEBUG = True
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "testserver"]
ROOT_URLCONF = "shop.urls"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "windlass.django",
    "orders",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("SHOP_SQLITE", str(HERE / "shop.sqlite3")),
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20},
    }
}
if "SHOP_POSTGRES_HOST" in os.environ:
    DATABASES["default"] = {
        "ENGINE": "django.db.backends.postgresql",
        **{name: os.environ.get(f"SHOP_POSTGRES_{name}", "") for name in ("HOST", "PORT", "NAME", "USER", "PASSWORD")},
    }

WINDLASS = {"LEASE": "30s", "DASHBOARD": "/windlass/"}
TASKS = {"default": {"BACKEND": "windlass.django.backend.WindlassBackend", "QUEUES": ["default", "mail"]}}
