//! Carries the traffic.
