"""Calls and tables of the dispatcher, drawn."""
