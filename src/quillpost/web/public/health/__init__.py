"""Whether the service is well."""
