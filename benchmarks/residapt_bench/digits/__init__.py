"""Digit tasks: readers, plans and runs."""
