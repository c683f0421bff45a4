"""Compute areas under the ROC curve for one rater, for many raters, and for the comparison of two conditions."""
