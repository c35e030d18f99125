"""E-mails and text messages that tell people what happened."""

from quillpost.notices.outbox import post

__all__ = ["post"]
