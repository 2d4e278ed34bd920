#!/bin/sh
# claude-agent-acp with the kit's model, and without what it would fetch besides.
export CLAUDE_CONFIG_DIR="$HOME/claude" ANTHROPIC_MODEL=fake-model IS_SANDBOX=1
export CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
exec "$@"
