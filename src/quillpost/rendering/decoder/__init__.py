"""Processes of limited rights that open the files of strangers."""
