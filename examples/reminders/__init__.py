"""A reminder bot, and a demonstration that its reminders survive ``kill -9``."""
