"""Telling users how their jobs end: subscriptions, fan-out of events to deliveries, and sending by mail and webhook."""
