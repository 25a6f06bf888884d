package storage

import (
	"context"
	"errors"
	"strings"
	"sync"
)

// ErrInjected is what a Faulty store answers where a rule names no other error.
var ErrInjected = errors.New("injected fault")

// Operation is a kind of call to a store.
type Operation string

// The operations that a Rule can name.
const (
	OpPut    Operation = "put"
	OpPutNew Operation = "put new"
	OpFile   Operation = "put file"
	OpGet    Operation = "get"
	OpOpen   Operation = "open"
	OpRead   Operation = "read"
	OpDelete Operation = "delete"
	OpList   Operation = "list"
)

// Rule says which calls go wrong, and how. Without an effect they fail with ErrInjected.
type Rule struct {
	// Operations are the kinds of calls; empty for all. Contains must be in the URI.
	Operations []Operation
	Contains   string
	// Skip calls that match pass before Times of them (0: all that follow) go wrong.
	Skip, Times int
	// Err is the answer.
	Err error
	// Done lets the call be made before its answer is lost.
	Done bool
	// Stall holds the call until the channel is closed or the call's context ends; it then goes on if Err is nil and
	// Done is unset.
	Stall <-chan struct{}

	seen, hits int
}

// Faulty is a Store in which chosen calls go wrong, for tests. It is safe for concurrent use.
type Faulty struct {
	Store

	mu    sync.Mutex
	rules []*Rule
}

// NewFaulty wraps a store; without rules everything passes.
func NewFaulty(s Store) *Faulty { return &Faulty{Store: s} }

// Break adds a rule. Of several that match a call, the first added decides. The rule belongs to the store afterwards.
func (f *Faulty) Break(r *Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, r)
}

// Heal removes all rules.
func (f *Faulty) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
}

// Hits tells how many calls a rule has broken.
func (f *Faulty) Hits(r *Rule) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return r.hits
}

// find gives the rule that breaks a call, nil when none does.
func (f *Faulty) find(op Operation, uri string) *Rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rules {
		if !r.names(op) || !strings.Contains(uri, r.Contains) {
			continue
		}
		r.seen++
		if r.seen <= r.Skip || r.Times > 0 && r.hits == r.Times {
			continue
		}
		r.hits++
		return r
	}
	return nil
}

func (r *Rule) names(op Operation) bool {
	for _, o := range r.Operations {
		if o == op {
			return true
		}
	}
	return len(r.Operations) == 0
}

// call makes a call as the rules have it.
func (f *Faulty) call(ctx context.Context, op Operation, uri string, do func() error) error {
	r := f.find(op, uri)
	if r == nil {
		return do()
	}
	if r.Stall != nil {
		select {
		case <-r.Stall:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if r.Err == nil && !r.Done {
			return do()
		}
	}
	if r.Done {
		if err := do(); err != nil {
			return err
		}
	}
	if r.Err != nil {
		return r.Err
	}
	return ErrInjected
}

// Put stores, or goes wrong.
func (f *Faulty) Put(ctx context.Context, uri string, body []byte) error {
	return f.call(ctx, OpPut, uri, func() error { return f.Store.Put(ctx, uri, body) })
}

// PutNew stores, or goes wrong.
func (f *Faulty) PutNew(ctx context.Context, uri string, body []byte) error {
	return f.call(ctx, OpPutNew, uri, func() error { return f.Store.PutNew(ctx, uri, body) })
}

// PutFile stores, or goes wrong.
func (f *Faulty) PutFile(ctx context.Context, uri, local string) error {
	return f.call(ctx, OpFile, uri, func() error { return f.Store.PutFile(ctx, uri, local) })
}

// Get reads, or goes wrong.
func (f *Faulty) Get(ctx context.Context, uri string) (body []byte, err error) {
	err = f.call(ctx, OpGet, uri, func() error {
		body, err = f.Store.Get(ctx, uri)
		return err
	})
	if err != nil {
		return nil, err
	}
	return body, nil
}

// Open opens, or goes wrong.
func (f *Faulty) Open(ctx context.Context, uri string) (Object, error) {
	var o Object
	err := f.call(ctx, OpOpen, uri, func() (err error) {
		o, err = f.Store.Open(ctx, uri)
		return err
	})
	if err != nil {
		if o != nil {
			o.Close()
		}
		return nil, err
	}
	return &faultyObject{o, f, ctx, uri}, nil
}

// Delete deletes, or goes wrong; the rules see the first URI.
func (f *Faulty) Delete(ctx context.Context, uris ...string) error {
	if len(uris) == 0 {
		return nil
	}
	return f.call(ctx, OpDelete, uris[0], func() error { return f.Store.Delete(ctx, uris...) })
}

// List lists, or goes wrong.
func (f *Faulty) List(ctx context.Context, prefix string, each func(Info) error) error {
	return f.call(ctx, OpList, prefix, func() error { return f.Store.List(ctx, prefix, each) })
}

type faultyObject struct {
	Object
	f   *Faulty
	ctx context.Context
	uri string
}

func (o *faultyObject) ReadAt(p []byte, off int64) (n int, err error) {
	err = o.f.call(o.ctx, OpRead, o.uri, func() error {
		n, err = o.Object.ReadAt(p, off)
		return err
	})
	return n, err
}
