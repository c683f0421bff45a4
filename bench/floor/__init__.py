"""The floor: the minimum work of a Django site for one rating. It checks the session, selects one row and inserts one."""
