"""The wire types of incoming messages, one module per protocol version."""
