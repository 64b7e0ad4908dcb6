# The images of Glacis. One of the targets at the end each:
#   docker build --target ext-proc  -t glacis-ext-proc:0.1.0  .
#   docker build --target ext-authz -t glacis-ext-authz:0.1.0 .
#   docker build --target wasm      -t glacis-wasm:0.1.0      .
#   docker build --target native      -t glacis-native:0.1.0      .
#   docker build --target native-init -t glacis-native-init:0.1.0 .
# docs/images.md says what is in them, and how the same is built and tried without a daemon.

FROM rust:1.95-bookworm AS build
# `cargo xtask fetch` downloads CRS and Envoy by curl, both pinned. Where their release archives cannot be reached, name a
# mirror: docker build --build-arg GLACIS_DOWNLOADS=https://mirror.example/github …
ARG GLACIS_DOWNLOADS=
WORKDIR /src
COPY . .
ARG SOURCE_DATE_EPOCH=0
RUN cargo xtask fetch && cargo xtask wasm
RUN cargo build --locked --release -p glacis-ext-proc -p glacis-ext-authz -p glacis-envoy-module
RUN images/rootfs.sh /out/ext-proc target/release/glacis-ext-proc \
      .fetched/crs-4.25.0 target/wasm32-wasip1/wasm/glacis_wasm_filter.wasm \
 && images/rootfs.sh /out/ext-authz target/release/glacis-ext-authz .fetched/crs-4.25.0 \
 && images/module.sh /out/native target/release/libglacis.so .fetched/crs-4.25.0 \
 && cargo xtask sbom glacis-ext-proc   > /out/ext-proc/usr/share/glacis/sbom.cdx.json \
 && cargo xtask sbom glacis-ext-authz  > /out/ext-authz/usr/share/glacis/sbom.cdx.json \
 && cargo xtask notices glacis-ext-proc glacis-wasm-filter > /out/ext-proc/usr/share/licenses/glacis/THIRD-PARTY.txt \
 && cargo xtask notices glacis-ext-authz > /out/ext-authz/usr/share/licenses/glacis/THIRD-PARTY.txt \
 && cargo xtask sbom glacis-envoy-module > /out/native/module/sbom.cdx.json \
 && cargo xtask notices glacis-envoy-module > /out/native/module/THIRD-PARTY.txt

FROM scratch AS ext-authz
LABEL org.opencontainers.image.title="glacis-ext-authz" \
      org.opencontainers.image.description="Identity, lists and limits for Envoy's ext_authz" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /out/ext-authz /
USER 65532:65532
EXPOSE 9002 9102 9104
ENTRYPOINT ["/usr/bin/glacis-ext-authz"]

# As Istio and Envoy Gateway expect a module in an image: one file of this name.
FROM scratch AS wasm
LABEL org.opencontainers.image.title="glacis-wasm" \
      org.opencontainers.image.description="Lists, limits and virtual patches inside Envoy" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /src/target/wasm32-wasip1/wasm/glacis_wasm_filter.wasm /plugin.wasm

# The native module with CRS, for an image volume of Envoy's pods: files only.
FROM scratch AS native
LABEL org.opencontainers.image.title="glacis-native" \
      org.opencontainers.image.description="The rules inside Envoy, as a native dynamic module" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /out/native /

# The same for clusters without image volumes: an init container that copies the files into the volume at /shared.
FROM busybox:1.37.0 AS native-init
LABEL org.opencontainers.image.title="glacis-native-init" \
      org.opencontainers.image.description="Copies the native module into a volume of Envoy's pods" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /out/native /
CMD ["cp", "-r", "/module", "/shared/"]

# For docker-compose.yaml: copies the module to where Envoy reads it, whatever is there.
FROM busybox:1.37.0 AS module
COPY --from=build /src/target/wasm32-wasip1/wasm/glacis_wasm_filter.wasm /module/
CMD ["sh", "-ec", "cp /module/glacis_wasm_filter.wasm /shared/.new && mv /shared/.new /shared/glacis_wasm_filter.wasm"]

FROM scratch AS ext-proc
LABEL org.opencontainers.image.title="glacis-ext-proc" \
      org.opencontainers.image.description="A web application firewall for Envoy that runs the OWASP Core Rule Set" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /out/ext-proc /
# Memory of bodies goes back to the system when they are done, instead of staying in pieces (mallopt(3)).
ENV MALLOC_ARENA_MAX=2 MALLOC_MMAP_THRESHOLD_=65536 MALLOC_TRIM_THRESHOLD_=131072
USER 65532:65532
EXPOSE 9001 9101 9103
ENTRYPOINT ["/usr/bin/glacis-ext-proc"]
