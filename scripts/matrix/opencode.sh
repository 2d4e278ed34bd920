#!/bin/sh
# opencode with a configuration that points at the kit's model and asks before it runs commands.
export OPENCODE_CONFIG="$HOME/opencode.json" OPENCODE_DISABLE_MODELS_FETCH=1
export OPENCODE_DISABLE_AUTOUPDATE=1 OPENCODE_PERMISSION='{"bash":"ask","edit":"ask"}'
cat > "$OPENCODE_CONFIG" <<END
{
  "model": "local/fake-model",
  "small_model": "local/fake-model",
  "autoupdate": false,
  "share": "disabled",
  "provider": {
    "local": {
      "npm": "@ai-sdk/openai-compatible",
      "options": {"baseURL": "$OPENAI_BASE_URL", "apiKey": "$OPENAI_API_KEY"},
      "models": {"fake-model": {}}
    }
  }
}
END
exec "$@"
