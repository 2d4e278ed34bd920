#!/bin/sh
# kimi-cli with a configuration that points at the kit's model. It wants a login even then.
export KIMI_SHARE_DIR="$HOME/kimi"
mkdir -p "$KIMI_SHARE_DIR/credentials"
cat > "$KIMI_SHARE_DIR/config.toml" <<END
default_model = "scripted"
default_thinking = false
telemetry = false
[models.scripted]
provider = "local"
model = "fake-model"
max_context_size = 131072
capabilities = ["image_in"]
[providers.local]
type = "openai_legacy"
base_url = "$OPENAI_BASE_URL"
api_key = "$OPENAI_API_KEY"
END
echo '{"access_token": "offline-placeholder", "refresh_token": "", "expires_at": 4102444800,
  "scope": "openid", "token_type": "Bearer"}' > "$KIMI_SHARE_DIR/credentials/kimi-code.json"
exec "$@"
