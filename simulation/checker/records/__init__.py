"""Checks of records: observations agree with the settings of the action, with the material and with each other."""
