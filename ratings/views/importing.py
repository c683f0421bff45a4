"""See /work/notes/contract.md."""

from django.urls import URLPattern

urls: list[URLPattern] = []
