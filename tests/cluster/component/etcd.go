package component

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/component-base/cli"
)

// etcd understands the few flags of the real one that the control package gives, so that a real etcd can take its place.
func etcd(args []string) int {
	cfg := embed.NewConfig()
	var dataDir, clientURL, peerURL string
	cmd := &cobra.Command{Use: "etcd", SilenceUsage: true, RunE: func(*cobra.Command, []string) error {
		cfg.Dir = dataDir
		cfg.LogLevel = "warn"
		// The data live as long as the process; a crash of the machine loses nothing that anyone wants back.
		cfg.UnsafeNoFsync = true
		if err := setURLs(cfg, clientURL, peerURL); err != nil {
			return err
		}
		return serveEtcd(cfg)
	}}
	cmd.Flags().StringVar(&dataDir, "data-dir", "", "folder of the data")
	cmd.Flags().StringVar(&clientURL, "listen-client-urls", "", "URL to serve clients on")
	cmd.Flags().StringVar(&clientURL, "advertise-client-urls", "", "the same as --listen-client-urls")
	cmd.Flags().StringVar(&peerURL, "listen-peer-urls", "", "URL to serve peers on")
	cmd.Flags().Bool("unsafe-no-fsync", true, "always so")
	cmd.SetArgs(args)
	return cli.Run(cmd)
}

func serveEtcd(cfg *embed.Config) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	defer server.Close()
	select {
	case <-server.Server.ReadyNotify():
	case <-time.After(30 * time.Second):
		return fmt.Errorf("etcd was not ready within 30 s")
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-server.Err():
		return fmt.Errorf("serve etcd: %w", err)
	}
}

func setURLs(cfg *embed.Config, client, peer string) error {
	clientURL, err := url.Parse(client)
	if err != nil {
		return fmt.Errorf("parse the client URL %q: %w", client, err)
	}
	peerURL, err := url.Parse(peer)
	if err != nil {
		return fmt.Errorf("parse the peer URL %q: %w", peer, err)
	}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*clientURL}, []url.URL{*clientURL}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{*peerURL}, []url.URL{*peerURL}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	return nil
}
