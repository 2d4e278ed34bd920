#!/bin/sh
# fast-agent with the kit's model and its shell tool.
export GENERIC_API_KEY="$OPENAI_API_KEY" GENERIC_BASE_URL="$OPENAI_BASE_URL"
exec "$@"
