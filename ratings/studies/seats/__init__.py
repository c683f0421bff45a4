"""Raters' seats in a running study: adding, withdrawing, and dealing waiting work again."""
