"""The one version of this release: of the server, of its API description and of what backups and manifests say."""

VERSION = "0.2.0"
