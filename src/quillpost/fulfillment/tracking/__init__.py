"""Carrier scans in, item statuses out. Raw scans are kept; items only move forward."""
