// Package control starts the control plane: certificates, etcd, the API server, the controllers, the scheduler,
// kube-proxy and CoreDNS, each a process that can be stopped and started again.
package control

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"haptic.rs/cluster/network"
)

// PKI is a cluster's certificates, as files in a folder.
type PKI struct {
	folder string
	ca     *x509.Certificate
	caKey  crypto.Signer
}

const lifetime = 10 * 365 * 24 * time.Hour

// NewPKI makes all certificates and keys of a cluster with the nodes.
func NewPKI(folder string, nodes map[string]string) (*PKI, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of certificates: %w", err)
	}
	p := &PKI{folder: folder}
	if err := p.makeAuthority(); err != nil {
		return nil, fmt.Errorf("make the certificate authority: %w", err)
	}
	names := []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + network.ClusterDomain}
	addresses := []string{"127.0.0.1", "::1", network.Gateway, network.FirstService}
	if err := p.issue("apiserver", pkix.Name{CommonName: "kube-apiserver"}, names, addresses); err != nil {
		return nil, err
	}
	for _, client := range []struct{ name, user string }{{"admin", "admin"}, {"apiserver-kubelet-client", "kube-apiserver"}} {
		subject := pkix.Name{CommonName: client.user, Organization: []string{"system:masters"}}
		if err := p.issue(client.name, subject, nil, nil); err != nil {
			return nil, err
		}
	}
	for node, address := range nodes {
		subject := pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}
		if err := p.issue(node, subject, []string{node}, []string{address}); err != nil {
			return nil, err
		}
	}
	// Tokens of service accounts are verified by other programs as well, of which all know RSA.
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, fmt.Errorf("make the key of service-account tokens: %w", err)
	}
	return p, p.writeKeyPair("service-accounts", key)
}

// Certificate is the path of the named certificate, Key that of its key.
func (p *PKI) Certificate(name string) string { return filepath.Join(p.folder, name+".crt") }

// Key is the path of the named private key.
func (p *PKI) Key(name string) string { return filepath.Join(p.folder, name+".key") }

// PublicKey is the path of the named public key.
func (p *PKI) PublicKey(name string) string { return filepath.Join(p.folder, name+".pub") }

func (p *PKI) makeAuthority() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "haptic test cluster"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(lifetime),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	p.caKey = key
	if p.ca, err = x509.ParseCertificate(der); err != nil {
		return err
	}
	return writePEM(p.Certificate("ca"), "CERTIFICATE", der, 0o644)
}

func (p *PKI) issue(name string, subject pkix.Name, names, addresses []string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make the key of %s: %w", name, err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return fmt.Errorf("draw a serial number: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: subject, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(lifetime),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, address := range addresses {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(address))
	}
	der, err := x509.CreateCertificate(rand.Reader, template, p.ca, key.Public(), p.caKey)
	if err != nil {
		return fmt.Errorf("issue the certificate of %s: %w", name, err)
	}
	if err := writePEM(p.Certificate(name), "CERTIFICATE", der, 0o644); err != nil {
		return err
	}
	return p.writeKeyPair(name, key)
}

func (p *PKI) writeKeyPair(name string, key crypto.Signer) error {
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode the key of %s: %w", name, err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encode the public key of %s: %w", name, err)
	}
	if err := writePEM(p.Key(name), "PRIVATE KEY", private, 0o600); err != nil {
		return err
	}
	return writePEM(p.PublicKey(name), "PUBLIC KEY", public, 0o644)
}

func writePEM(path, kind string, der []byte, mode os.FileMode) error {
	content := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(path, content, mode); err != nil {
		return fmt.Errorf("write a certificate or key: %w", err)
	}
	return nil
}
