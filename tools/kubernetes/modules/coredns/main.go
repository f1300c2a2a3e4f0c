// CoreDNS with the plugins that a cluster needs. Its own program has all of them, and with these the libraries of every cloud.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

func init() {
	dnsserver.Directives = []string{"errors", "kubernetes"}
}

func main() {
	coremain.Run()
}
