#!/bin/sh
# qwen-code with a configuration that points at the kit's model.
export OPENAI_MODEL=fake-model
mkdir -p "$HOME/.qwen"
echo '{"security": {"auth": {"selectedType": "openai"}}}' > "$HOME/.qwen/settings.json"
exec "$@"
