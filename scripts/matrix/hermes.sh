#!/bin/sh
# hermes-agent with a configuration that points at the kit's model.
export HERMES_HOME="$HOME/hermes"
mkdir -p "$HERMES_HOME"
cat > "$HERMES_HOME/config.yaml" <<END
model:
  default: fake-model
  provider: custom
  base_url: $OPENAI_BASE_URL
  api_key: $OPENAI_API_KEY
  context_length: 131072
END
exec "$@"
