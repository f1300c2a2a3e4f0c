"""Paths of this app, below `/api/v1/`."""

from django.urls import path

from activity.api import views

urlpatterns = [
    path("events", views.EventsView.as_view(), name="events"),
    path("events/stream", views.EventStreamView.as_view(), name="event-stream"),
    path("tickets", views.TicketsView.as_view(), name="tickets"),
    path("audit", views.AuditView.as_view(), name="audit"),
    path("notification-channels", views.NotificationChannelsView.as_view(), name="notification-channels"),
    path("subscriptions", views.SubscriptionsView.as_view(), name="subscriptions"),
    path("subscriptions/<uuid:subscription>", views.SubscriptionView.as_view(), name="subscription"),
    path("subscriptions/<uuid:subscription>/test", views.SubscriptionTestView.as_view(), name="subscription-test"),
    path("deliveries", views.DeliveriesView.as_view(), name="deliveries"),
    path("deliveries/<uuid:delivery>/retry", views.DeliveryRetryView.as_view(), name="delivery-retry"),
]
