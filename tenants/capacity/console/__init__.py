"""Pages of the operators' console about tenants and their capacity that are more than rows."""
