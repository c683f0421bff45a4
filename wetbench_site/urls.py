"""All URLs of the site."""

from django.contrib import admin
from django.urls import include, path

from wetbench_site.observability import health

urlpatterns = [
    path("", include("ratings.urls")),  # first, because most requests are ratings
    path("", include("ratings.web.account.sign_in")),
    path("admin/", admin.site.urls),
    *(path(address[1:], view, name=view.__name__) for address, view in health.MACHINE_VIEWS.items()),
    path("api/v1/", include("ratings.api.urls")),
    path("", include("simulation.urls")),
]
handler400 = "wetbench_site.error_pages.bad_request"
handler500 = "wetbench_site.error_pages.handle_server_error"
