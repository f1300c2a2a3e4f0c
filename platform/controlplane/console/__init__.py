"""The operators' console at `/admin`: a back door with a sign-in of its own, for when API and portal are not enough."""
