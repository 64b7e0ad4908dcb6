//go:build tools

package tools

import (
	_ "github.com/envoyproxy/gateway/cmd/envoy-gateway"
)
