"""Sends that start by themselves: on a list entry, a scan, or a date."""
