"""Checks of records: observations agree with the action's settings, with the material and with themselves."""
