"""How to test such an app: the jobs of a test are in memory, and the real worker runs them."""

from django.test import TestCase

from windlass.django import app
from windlass.testing import testing

from .models import Order
from .tasks import send_receipt, ship


class OrderTest(TestCase):
    def test_an_order_is_to_be_shipped(self) -> None:
        with testing(app) as test:
            answer = self.client.get("/orders/tea/").json()
            test.assert_enqueued(ship, answer["order"])
            assert send_receipt.get_result(answer["receipt"]).status == "READY"

    def test_shipping_is_noted(self) -> None:
        order = Order.objects.create(item="tea")
        assert ship(order.pk) == "shipped tea"  # a plain call
        order.refresh_from_db()
        assert order.shipped
