# Two commands matter: `make demo` shows Streambed at work in a minute, `make test` proves it. `make build` leaves the
# programs in bin/.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
export CGO_ENABLED := 1

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# Tests are built like the programs, so that both share the build cache.
GO_FLAGS := -buildvcs=false
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

# Packages whose tests run under the race detector: those with goroutines of their own, but for DuckDB, whose race
# build would take longer than all tests together, and for the suites of whole lakes and of the source's catalog.
RACE_PACKAGES := ./lsn/... $(addprefix ./stages/,batcher committer decoder message reader snapshot) ./formats/keyindex/... ./formats/storage/...

.PHONY: build test lint unit race soak demo clean prerequisites testservers versions

build: prerequisites ## bin/streambedd and bin/queryd
	@mkdir -p bin
	go build $(GO_FLAGS) -ldflags '-s -w -X main.version=$(VERSION)' -o bin/ ./cmd/streambedd ./cmd/queryd

test: prerequisites testservers lint race unit versions ## everything: formatting, vet, staticcheck, race detector, all tests

lint: prerequisites ## gofmt, go vet, staticcheck
	@unformatted=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go' 2>/dev/null || find . -name '*.go')); \
	if [ -n "$$unformatted" ]; then echo "gofmt -w these files:"; echo "$$unformatted"; exit 1; fi
	go vet $(GO_FLAGS) ./...
	@# ST1005: sentences of ours may begin with a proper name, such as Postgres.
	GOFLAGS='$(GO_FLAGS)' go run $(STATICCHECK) -checks inherit,-ST1005 ./...

race: prerequisites
	go test $(GO_FLAGS) -timeout 20m -race $(RACE_PACKAGES)

unit: prerequisites ## the packages that `race` leaves out
	go test $(GO_FLAGS) -timeout 20m $$(comm -23 <(go list ./... | sort) <(go list $(RACE_PACKAGES) | sort))

# What tells one version of Postgres from another: its catalogs, its protocol, and the whole pipeline on it.
VERSIONS ?= 17 18

versions: prerequisites testservers ## what depends on Postgres' version, on the versions that are not the system's
	@for version in $(VERSIONS); do \
		if folder=$$(deploy/testservers.sh postgres$$version); then \
			echo "On Postgres $$version:"; \
			STREAMBED_PG_BIN=$$folder go test $(GO_FLAGS) -timeout 10m ./stages/source -run 'Columns|KeyIs|Findings|Publication|Schema|Slot'; \
			STREAMBED_PG_BIN=$$folder go test $(GO_FLAGS) -timeout 10m ./test/endtoend -run 'KilledAgainAndAgain|OurPublicationDropped'; \
		else echo "Skipped: the tests on Postgres $$version."; fi; \
	done

HISTORIES ?= 60
SEED ?= 1000
MODE ?= dv

soak: prerequisites ## random histories against a real Postgres: HISTORIES=60 SEED=1000 MODE=dv (mor, cow, any)
	go test $(GO_FLAGS) -timeout 6h -count 1 ./test/oracle -run Histories -histories $(HISTORIES) -seed $(SEED) -mode $(MODE)

demo: build ## Streambed at work in about a minute; KEEP=1 leaves it running until Ctrl-C
	@go run $(GO_FLAGS) ./deploy/demo -bin bin

clean: ## removes what build made
	rm -rf bin

prerequisites: ## a C++ compiler and a Postgres server: installed by apt when root, else named
	@deploy/prerequisites.sh

testservers: ## an S3 server and other versions of Postgres, into a cache folder; what cannot be had, its tests skip
	@for server in versitygw postgres17 postgres18; do \
		deploy/testservers.sh $$server >/dev/null || echo "Skipped: the tests that need $$server."; \
	done
