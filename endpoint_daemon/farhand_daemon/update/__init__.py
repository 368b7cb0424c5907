"""Changing the installed program for another version of it, and back when that does not work."""
