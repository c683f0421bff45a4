"""What a blinding audit is made of: what is sealed, what raters are sent, and what either of them says of the other."""
