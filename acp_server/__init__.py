"""acp_server is the stdio front end: it maps ACP requests onto turns of a harness agent."""
