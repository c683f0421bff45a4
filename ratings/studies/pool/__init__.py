"""The items of a study: candidates, items held in quarantine, and the items that opening freezes."""
