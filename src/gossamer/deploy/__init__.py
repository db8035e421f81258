"""What is needed to run a crawl on machines: files for Docker, Swarm, GitLab, Prometheus and Grafana, and a project to start from."""

from gossamer.deploy.dashboard import dashboard
from gossamer.deploy.files import Choice, deploy_files, project_files

__all__ = ["Choice", "dashboard", "deploy_files", "project_files"]
