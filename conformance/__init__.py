"""A black-box conformance kit for any agent that speaks the Agent Client Protocol."""
