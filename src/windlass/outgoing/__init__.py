"""Requests to addresses that somebody else has written down: where they may lead, and how they are made."""

from windlass.outgoing.addresses import Networks
from windlass.outgoing.sending import Forbidden, Sender, Sends

__all__ = ["Forbidden", "Networks", "Sender", "Sends"]
