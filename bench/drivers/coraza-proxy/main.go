// A reverse proxy of Go's standard library with Coraza's middleware before it: what `cargo xtask bench barbacana` and
// `proxies` call go-coraza.
//
//	coraza-proxy LISTEN UPSTREAM RULES.conf
package main

import (
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"

	"github.com/corazawaf/coraza/v3"
	corazahttp "github.com/corazawaf/coraza/v3/http"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: coraza-proxy LISTEN UPSTREAM RULES.conf")
	}
	waf, err := coraza.NewWAF(coraza.NewWAFConfig().WithDirectivesFromFile(os.Args[3]))
	if err != nil {
		log.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: os.Args[2]})
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 1024
	proxy.Transport = transport
	log.Fatal(http.ListenAndServe(os.Args[1], corazahttp.WrapHandler(waf, proxy)))
}
