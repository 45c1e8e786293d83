//! Checks that the gateway's file means what it says, and that all its faults are told at once.
