"""Every address of the site."""

from django.contrib import admin
from django.contrib.auth.views import LogoutView
from django.urls import include, path

from ratings.views.home import home
from ratings.views.signing_in import SignIn
from wetbench_site import health

urlpatterns = [
    path("", home, name="home"),
    path("login/", SignIn.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("admin/", admin.site.urls),
    *(path(address[1:], view, name=view.__name__) for address, view in health.ADDRESSES.items()),
    path("api/v1/", include("ratings.api.urls")),
    path("", include("simulation.urls")),
    path("", include("ratings.urls")),
]
handler400 = "wetbench_site.error_pages.bad_request"
handler500 = "wetbench_site.faults.failed"
