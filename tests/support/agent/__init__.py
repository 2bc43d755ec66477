"""The real agent, verb by verb, between namespaces."""
