//! Where the bytes of a plugin come from: an OCI registry, an HTTP server, a ConfigMap, a file or the binary itself.
