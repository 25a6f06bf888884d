package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/stages"
)

//go:embed page.html
var page []byte

// report is what /status.json and the control socket say.
type report struct {
	Version string        `json:"version"`
	PID     int           `json:"pid"`
	Started time.Time     `json:"started"`
	Now     time.Time     `json:"now"`
	Lag     lag           `json:"lag"`
	Status  stages.Status `json:"status"`
	// Store counts what went to the object store since the start, for queries too unless they read local files.
	Store storage.Counts `json:"store"`
}

// lag is how far the lake is behind its source.
type lag struct {
	// Bytes of WAL between what is committed and the source's end.
	Bytes uint64 `json:"bytes"`
	// Seconds since the source time up to which the lake is complete; 0 when nothing is outstanding, negative when
	// unknown.
	Seconds float64 `json:"seconds"`
}

// lagOf measures the lag of a status at a time.
func lagOf(s *stages.Status, now time.Time) lag {
	switch {
	case s.SourceEnd == 0:
		return lag{Seconds: -1}
	case s.Committed >= s.SourceEnd:
		return lag{}
	}
	l := lag{Bytes: uint64(s.SourceEnd - s.Committed), Seconds: -1}
	if !s.Known.IsZero() {
		l.Seconds = max(0, now.Sub(s.Known).Seconds())
	}
	return l
}

// newReport describes a pipeline now.
func newReport(status func() stages.Status, started time.Time, pid int) report {
	s, now := status(), time.Now()
	return report{Version: version, PID: pid, Started: started, Now: now, Lag: lagOf(&s, now), Status: s}
}

// webHandler serves health, metrics and the status page.
func webHandler(make func() report) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		&pipelineCollector{report: make})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if why := notReady(make()); why != "" {
			http.Error(w, why, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 8, Timeout: 10 * time.Second}))
	mux.HandleFunc("GET /status.json", func(w http.ResponseWriter, _ *http.Request) { writeReport(w, make()) })
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(page)
	})
	return mux
}

// notReady says why a pipeline is not ready; "" when it is.
func notReady(r report) string {
	s := &r.Status
	if s.Ready {
		return ""
	}
	if s.Trouble != "" {
		return s.Phase + ": " + s.Trouble
	}
	for _, t := range s.Tables {
		if t.Phase == "copying" {
			return "table " + t.Name + " is in its first copy"
		}
	}
	return "the pipeline is " + s.Phase
}

func writeReport(w http.ResponseWriter, r report) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(r)
}

// serve answers on a listener until ctx ends; it closes the listener. It returns nil when it was ended by ctx.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
		WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if server.Shutdown(within) != nil {
			_ = server.Close()
		}
	})
	err := server.Serve(listener)
	if !stop() {
		<-stopped
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
