from typing import Any

from django.db import transaction
from django.http import HttpRequest, JsonResponse

from .models import Order
from .tasks import send_receipt, ship


def order(request: HttpRequest, item: str) -> Any:
    """The order and its jobs are stored together, or none of them is."""
    with transaction.atomic():
        made = Order.objects.create(item=item)
        job = ship.enqueue_sync(made.pk)
        receipt = send_receipt.enqueue(made.pk)
        if item == "unicorn":
            raise ValueError("there are none")
    return JsonResponse({"order": made.pk, "job": job.id, "receipt": receipt.id})
