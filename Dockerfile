# The transmsg binary alone: static, without a shell, as a user without rights.
#   docker build --build-arg VERSION=$(git describe --tags --always) -t transmsg .
FROM golang:1.26-bookworm AS build
WORKDIR /src
# The modules change less often than the code: a layer of their own.
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
# No cgo: the SQLite store is pure Go, so that nothing but the binary is needed.
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=${VERSION}" -o /out/transmsg ./cmd/transmsg

FROM scratch
# TLS to a broker, a database or a webhook is checked against the system's certificates.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/transmsg /transmsg
# Numeric, so that Kubernetes can verify runAsNonRoot.
USER 65532:65532
# Health and metrics; they listen on 127.0.0.1 unless told otherwise (--http).
EXPOSE 9467
ENTRYPOINT ["/transmsg"]
CMD ["compensator"]
