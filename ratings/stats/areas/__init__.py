"""Areas under the ROC curve: of one rater, of many raters, and of two conditions."""
