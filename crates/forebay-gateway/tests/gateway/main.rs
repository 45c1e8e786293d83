//! Tests the whole gateway on raw sockets, between scripted workers and scripted clients.
//!
//! | module | answers |
//! |---|---|
//! | `stub`, `client`, `house` | who plays the worker, the client, and starts the gateway? |
//! | `vanish` | what is left of clients that go away? |
//! | `faults` | what becomes of requests whose worker dies, stalls or comes back? |
//! | `stop` | what becomes of requests when the gateway is told to stop? |
//! | `bytes` | does everything pass as it was sent? |
//! | `streams` | is a stream read right, wherever it is cut? |
//! | `busy` | what do workers' own refusals and errors lead to? |
//! | `returns` | is whoever was refused told when to come back, and served then? |
//! | `keys` | who may ask for what? |
//! | `isolation` | what does one pool's queue cost another pool? |
//! | `hostile` | what can be done with bytes alone? |
//! | `collector`, `traces` | what is a collector of traces told? (with the feature `otel`) |

mod busy;
mod bytes;
mod client;
#[cfg(feature = "otel")]
mod collector;
mod faults;
mod hostile;
mod house;
mod isolation;
mod keys;
mod returns;
mod stop;
mod streams;
mod stub;
#[cfg(feature = "otel")]
mod traces;
mod vanish;
