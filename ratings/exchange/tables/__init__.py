"""Tables of ratings as CSV, as others write them."""
