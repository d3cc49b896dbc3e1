"""Django, and the dashboard under /windlass for its staff: uvicorn shop.asgi:application"""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
django_application = get_asgi_application()

from windlass.django.dashboard import with_dashboard  # noqa: E402 - after Django is set up

application = with_dashboard(django_application)
