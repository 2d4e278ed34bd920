#!/bin/sh
# claude-agent-acp with the kit's model, questions before tools run, and nothing fetched besides.
export CLAUDE_CONFIG_DIR="$HOME/claude" ANTHROPIC_MODEL=fake-model IS_SANDBOX=1
export CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
mkdir -p "$CLAUDE_CONFIG_DIR"
echo '{"permissions": {"defaultMode": "default"}}' > "$CLAUDE_CONFIG_DIR/settings.json"
exec "$@"
