"""E-mails and text messages that tell people what happened."""
