"""Checks of amounts: moving, mixing, diluting or weighing neither creates nor destroys matter."""
