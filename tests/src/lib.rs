//! The harness of the end-to-end tests and of `up`: starts a real Envoy with everything of ours
//! around it, on free ports of the loopback interface, and stops it again.
//!
//! Nothing here stands for a part of the product: Envoy, the wasm-filter and the services are the real
//! ones. The exceptions misbehave on purpose: [`scripted`] in place of ext-proc, [`trap`] of the
//! wasm-filter, and [`impostor`] of whoever has a port.

pub mod authz;
pub mod bench;
pub mod browser;
pub mod certificates;
pub mod chaos;
pub mod components;
pub mod crs;
pub mod decisions;
pub mod envoy;
pub mod ext_proc;
pub mod failure;
pub mod filter;
pub mod filter_bench;
pub mod fleet;
pub mod frames;
pub mod gate;
pub mod greedy;
pub mod grpc;
pub mod http;
pub mod http2;
pub mod impostor;
pub mod lender;
pub mod list_server;
pub mod load;
pub mod log;
pub mod machine;
pub mod modsecurity;
pub mod native;
pub mod ports;
pub mod process;
pub mod rate_limit;
pub mod redis;
pub mod reload;
pub mod scripted;
pub mod settings;
pub mod soak;
pub mod stack;
pub mod traffic;
pub mod trap;
pub mod upstream;
pub mod websocket;
