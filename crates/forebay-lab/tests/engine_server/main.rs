//! Talks to engine servers over plain sockets, as a router would.

mod client;
mod faults;
mod forms;
mod hostile;
mod kv;
