"""Tasks of this app, in both ways: Windlass's own, and Django's."""

try:
    from django.tasks import task  # Django 6
except ImportError:
    from django_tasks import task  # 5.2, with the backport: pip install django-tasks

from windlass import Retry
from windlass.django import app

from .models import Order


@app.task(retry=Retry(max_retries=3), timeout="1m")
def ship(order_id: int) -> str:
    """Everything that Windlass can do: retries, limits, schedules, groups, results with types."""
    order = Order.objects.get(pk=order_id)
    order.shipped = True
    order.save()
    return f"shipped {order.item}"


@task(queue_name="mail")
def send_receipt(order_id: int) -> str:
    """What Django's own API can say; runs on any backend."""
    return f"receipt for {Order.objects.get(pk=order_id).item}"
