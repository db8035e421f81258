"""Alerts without Prometheus: rules on what a crawl counts, evaluated by the leader of the planners and sent to a webhook."""
