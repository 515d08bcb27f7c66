# The same commands as CI's, under short names. "make" lists them.
.DEFAULT_GOAL := help
.PHONY: help check services fmt lint vet test quick build vuln bench demo

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

check: fmt lint vet test ## what a change must pass: fmt, lint, vet, test

services: ## make RabbitMQ, MariaDB, PostgreSQL and Redis answer on loopback
	scripts/services.sh

fmt: ## format the code (gofumpt, grouped imports)
	scripts/golangci-lint.sh fmt ./...

lint: ## run golangci-lint with the import graph and shellcheck
	scripts/golangci-lint.sh run ./...
	shellcheck -x scripts/*.sh .ci/run

vet: ## run go vet
	go vet ./...

test: ## run everything that CI runs, on real servers
	scripts/test.sh

quick: ## run the tests of one package: make quick PKG=./model
	go test -race -shuffle=on $(or $(PKG),./...)

build: ## build bin/transmsg
	CGO_ENABLED=0 go build -ldflags "-X main.version=$$(git describe --tags --always --dirty)" -o bin/transmsg ./cmd/transmsg

vuln: ## look for known vulnerabilities (needs the network; no part of CI)
	go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...

bench: ## run the Go benchmarks
	go test -run '^$$' -bench . -benchmem ./...

demo: ## watch the three stages: store, send, repair
	scripts/demo.sh
