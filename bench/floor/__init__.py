"""The floor: the least a Django site can do for a rating. It checks the session, selects one row and inserts one."""
