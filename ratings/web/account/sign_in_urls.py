"""URLs of the start page and of signing in and out.

Their names have no namespace, because Django, the admin site's templates and the settings use `login` and `logout`.
"""

from django.contrib.auth.views import LogoutView
from django.urls import URLPattern, path

from ratings.web.account.home import redirect_home
from ratings.web.account.sign_in import SignIn

urlpatterns: list[URLPattern] = [
    path("", redirect_home, name="home"),
    path("login/", SignIn.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
]
