"""Every address of the site."""

from django.contrib import admin
from django.contrib.auth.views import LoginView, LogoutView
from django.urls import include, path

from ratings.views.home import home
from ratings.views.signing_in import SignInForm

urlpatterns = [
    path("", home, name="home"),
    path("login/", LoginView.as_view(authentication_form=SignInForm, redirect_authenticated_user=True), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("admin/", admin.site.urls),
    path("", include("simulation.urls")),
    path("", include("ratings.urls")),
]
