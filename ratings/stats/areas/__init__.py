"""Areas under the ROC curve: one rater, many raters, and two conditions."""
