from django.contrib import admin
from django.urls import path
from orders.views import order

urlpatterns = [path("admin/", admin.site.urls), path("orders/<str:item>/", order)]
