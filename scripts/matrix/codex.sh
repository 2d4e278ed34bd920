#!/bin/sh
# codex-acp with a configuration that points at the kit's model.
export CODEX_HOME="$HOME/codex"
mkdir -p "$CODEX_HOME"
cat > "$CODEX_HOME/config.toml" <<END
model = "fake-model"
model_provider = "local"
check_for_update_on_startup = false
[model_providers.local]
name = "local"
base_url = "$OPENAI_BASE_URL"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
END
exec "$@"
