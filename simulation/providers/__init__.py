"""Language models over the wire: text in, text out. No Django, no laboratory."""
