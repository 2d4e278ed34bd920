#!/bin/sh
# mistral-vibe with a configuration that points at the kit's model.
export VIBE_HOME="$HOME/vibe"
mkdir -p "$VIBE_HOME"
cat > "$VIBE_HOME/config.toml" <<END
active_model = "scripted"
enable_telemetry = false
enable_update_checks = false
enable_auto_update = false
[[providers]]
name = "local"
api_base = "$OPENAI_BASE_URL"
api_key_env_var = "OPENAI_API_KEY"
api_style = "openai"
backend = "generic"
[[models]]
name = "fake-model"
provider = "local"
alias = "scripted"
END
exec "$@"
