package queryd

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"
)

// LoadTLS reads a certificate and its key (PEM files) and gives what Options.TLS takes. The files are looked at again
// when a client connects, at most once a second; a renewed certificate is used from then on, and one that cannot be read
// leaves the old one in use, which is logged.
func LoadTLS(certificate, key string, log *zap.Logger) (func() *tls.Config, error) {
	r := &reloader{certificate: certificate, key: key, log: log}
	if err := r.load(); err != nil {
		return nil, err
	}
	return r.config, nil
}

type reloader struct {
	certificate, key string
	log              *zap.Logger

	mu      sync.Mutex
	current *tls.Config
	seen    [2]time.Time
	looked  time.Time
}

func (r *reloader) modified() (times [2]time.Time, err error) {
	for i, path := range []string{r.certificate, r.key} {
		info, err := os.Stat(path)
		if err != nil {
			return times, err
		}
		times[i] = info.ModTime()
	}
	return times, nil
}

func (r *reloader) load() error {
	times, err := r.modified()
	if err != nil {
		return fmt.Errorf("the certificate of the query server (query.tls): %w", err)
	}
	pair, err := tls.LoadX509KeyPair(r.certificate, r.key)
	if err != nil {
		return fmt.Errorf("the certificate of the query server (query.tls): %w", err)
	}
	r.seen, r.looked = times, time.Now()
	r.current = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	return nil
}

func (r *reloader) config() *tls.Config {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.looked) >= time.Second {
		r.looked = time.Now()
		if times, err := r.modified(); err != nil || times != r.seen {
			if err := r.load(); err != nil {
				r.log.Warn("the query server goes on with the certificate that it has", zap.Error(err))
			} else {
				r.log.Info("the query server uses a renewed certificate")
			}
		}
	}
	return r.current
}
