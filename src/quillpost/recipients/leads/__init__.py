"""Addresses that can be bought: the nearest to a place, exactly."""
